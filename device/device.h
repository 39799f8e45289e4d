// One computing device as one rank sees it: memory, streams, events, GEMM and the kernels of device/kernels.h.
// Implemented by device/cpu and device/cuda (shared objects, opened by device/backend) and by fakes in the tests.
// `calibrate` times these very calls; the executor of `run` is built on them.
//
// Work is enqueued on a stream and returns at once; streams run in order, and beside each other where the device can.
// Errors of the device (out of memory, a lost device) are EnvError, from any call; a misuse is BugError.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/operation_kinds.h"
#include "base/units.h"
#include "device/kernels.h"

namespace gpuplan {

enum class DeviceKind : std::uint8_t { Cpu, Cuda };
inline constexpr std::array kDeviceKinds{DeviceKind::Cpu, DeviceKind::Cuda};
std::string_view to_string(DeviceKind kind);  // "cpu", "cuda"
NameTable<DeviceKind> names_of(DeviceKind);

/// Bytes, of whatever a device allocates.
inline constexpr std::int64_t kAlignment = 256;

/// Facts about the device and the libraries that run on it.
struct DeviceFacts {
  DeviceKind kind{};
  std::string name;                  // "NVIDIA H200", "Intel(R) Xeon(R) Processor"
  std::string architecture;          // "sm_90", "avx512_core_amx"
  Bytes memory, memory_free;         // of a CPU: of the host, and what is available
  std::int64_t num_cores{};          // SMs; threads that this rank computes with
  std::vector<GemmType> gemm_types;  // that it can multiply
  std::vector<std::pair<std::string, std::string>>
      versions;                       // {"driver", "580.65"}, {"cuBLASLt", "13.0.2"}, {"oneDNN", "2.6.3"}
  std::vector<std::string> warnings;  // "oneDNN takes this processor for AVX2 although it has AVX-512"
};

/// Priority where streams compete: communication is short, others wait for it, so it comes first.
enum class StreamUse : std::uint8_t { Compute, Communication };

class Stream {
 public:
  virtual ~Stream() = default;
  virtual void synchronise() = 0;  // all enqueued work is done; throws EnvError when some of it failed
  /// A function on the host in the stream's order: what comes later waits for it.
  virtual void run_on_host(std::function<void()> task) = 0;
};

class Event {
 public:
  virtual ~Event() = default;
  virtual void synchronise() = 0;  // the work before the record is done
};

/// Work of several streams that Device::capture recorded, to be launched as a whole any number of times.
class Graph {
 public:
  virtual ~Graph() = default;
};

/// C = alpha A B, in the layout's sense, plus C when `accumulates`. All matrices are dense; problems of a batch follow
/// each other.
struct GemmProblem {
  std::int64_t m{}, n{}, k{}, batch = 1;
  GemmType type{};
  GemmLayout layout{};
  Dtype output = Dtype::F32;  // F32, or the operands' dtype (bf16 for fp8)
  bool accumulates = false;
  float alpha = 1;

  double flops() const { return 2.0 * double(m) * double(n) * double(k) * double(batch); }
  Bytes a_bytes() const { return bytes_of(m * k * batch, operand_dtype(type)); }
  Bytes b_bytes() const { return bytes_of(n * k * batch, operand_dtype(type)); }
  Bytes c_bytes() const { return bytes_of(m * n * batch, output); }
  /// Least traffic: every operand and the result once.
  Bytes bytes() const { return a_bytes() + b_bytes() + c_bytes(); }
};

/// Any one of the kernels.
template <class, class... Kernels>
struct KernelVariant {
  using type = std::variant<Kernels...>;
};
#define GPUPLAN_KERNEL_TYPE(Name) , kernels::Name
using KernelCall = KernelVariant<void GPUPLAN_KERNELS(GPUPLAN_KERNEL_TYPE)>::type;
#undef GPUPLAN_KERNEL_TYPE

enum class CopyKind : std::uint8_t { HostToDevice, DeviceToHost, DeviceToDevice };
enum class HostMemory : std::uint8_t { Pageable, Pinned };

/// Memory that goes back to its owner with this object. Movable; empty when default-constructed.
class Buffer {
 public:
  Buffer() = default;
  Buffer(void* data, Bytes size, std::shared_ptr<void> keeper) : data_(data), size_(size), keeper_(std::move(keeper)) {}
  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  Bytes size() const { return size_; }

 private:
  void* data_ = nullptr;
  Bytes size_;
  std::shared_ptr<void> keeper_;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceFacts facts() const = 0;
  /// Memory of the device that this process holds beyond its buffers: context, loaded kernels, workspaces. 0 on a CPU.
  virtual Bytes overhead() const = 0;

  // Memory, aligned to kAlignment. Throws EnvError naming the size asked and what is free.
  virtual Buffer allocate(Bytes size) = 0;
  virtual Buffer allocate_host(Bytes size, HostMemory kind) = 0;

  // Streams and events. `record` marks the end of what is enqueued now; `wait` makes later work of the stream wait for
  // it.
  virtual std::unique_ptr<Stream> create_stream() = 0;
  /// For a rank that computes and communicates at once. Devices without priorities make no difference.
  virtual std::unique_ptr<Stream> create_stream_for(StreamUse) { return create_stream(); }
  /// Takes now what memory products and sums on the stream will need, so that none is missing in the middle of a step.
  virtual void prepare(Stream&) {}
  virtual std::unique_ptr<Event> create_event() = 0;
  virtual void record(Event& event, Stream& stream) = 0;
  virtual void wait(Stream& stream, Event& event) = 0;
  /// Between two recorded events that have happened.
  virtual Seconds elapsed(Event& begin, Event& end) = 0;

  // Work that is the same every time: recorded once, then launched by one call instead of one per kernel.
  virtual bool can_capture() const { return false; }
  /// Records what `enqueue` enqueues on `streams` instead of running it; nothing is under way on them. Addresses and
  /// numbers are recorded as they are. It may hold collectives, copies of pinned memory, and waits for events that it
  /// recorded before; not waits of the host, tasks on it, allocations and pageable memory. Events recorded in it mean
  /// nothing outside until they are recorded anew. When the device cannot record it (EnvError), or `enqueue` throws,
  /// nothing of it has run and the streams are as before. Null where can_capture() is false.
  virtual std::unique_ptr<Graph> capture(std::span<Stream* const> /*streams*/,
                                         const std::function<void()>& /*enqueue*/) {
    return nullptr;
  }
  /// All of it in the stream's order; streams that were beside each other when it was recorded are so again.
  virtual void launch(Graph&, Stream&) {}

  // Work. Pointers are of device memory unless said; counts are elements. None is checked against its buffer.
  virtual void copy(void* to, const void* from, Bytes size, CopyKind kind, Stream& stream) = 0;
  virtual void gemm(const GemmProblem& problem, const void* a, const void* b, void* c, Stream& stream) = 0;
  /// A product that also adds a bias [n] to every row of C. False, with nothing enqueued, where the device has none for
  /// these operands: gemm_and_bias (device/products.h) then does it in two passes.
  virtual bool try_gemm_with_bias(const GemmProblem&, const void* /*a*/, const void* /*b*/, void* /*c*/,
                                  const void* /*bias*/, Dtype /*of the bias*/, Stream&) {
    return false;
  }
  /// A weight gradient that also writes the column sums of A, the gradient [m] of the bias; like C, it is added to when
  /// the problem accumulates. False as above.
  virtual bool try_gemm_with_bias_gradient(const GemmProblem&, const void* /*a*/, const void* /*b*/, void* /*c*/,
                                           void* /*gradient*/, Dtype /*of the gradient*/, Stream&) {
    return false;
  }
  virtual void run(const KernelCall& kernel, Stream& stream) = 0;
};

}  // namespace gpuplan
