// One computing device as one rank sees it: memory, streams, events, GEMM and kernels. A narrow interface with three
// sides: device/cpu and device/cuda (shared objects, opened by device/backend) and the fake one of the tests.
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
#include <vector>

#include "base/gemm_kind.h"
#include "base/units.h"

namespace gpuplan {

enum class DeviceKind : std::uint8_t { Cpu, Cuda };
inline constexpr std::array kDeviceKinds{DeviceKind::Cpu, DeviceKind::Cuda};
std::string_view to_string(DeviceKind kind);  // "cpu", "cuda"
NameTable<DeviceKind> names_of(DeviceKind);

/// Bytes, of whatever a device allocates.
inline constexpr std::int64_t kAlignment = 256;
/// The label of a row that counts for nothing, in loss and gradient.
inline constexpr std::int32_t kIgnoredLabel = -100;

/// What the device is and what runs on it.
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

/// Who goes first where streams compete: what communicates is short, and others wait for it.
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

enum class AttentionMethod : std::uint8_t { Flash, Eager };

/// out = softmax(q k^T / sqrt(head_size)) v. q and out: [batch, heads, queries, head_size]; k and v: [batch, kv_heads,
/// keys, head_size]. Causal: query i sees keys up to i + keys - queries. Eager writes the scores [batch, heads,
/// queries, keys] to `scores`.
struct AttentionProblem {
  std::int64_t batch = 1, heads{}, kv_heads{}, queries{}, keys{}, head_size{};
  Dtype dtype = Dtype::F32;
  AttentionMethod kernel{};
  bool is_causal = true;

  /// Multiplications and additions of both products, of a full square whatever the mask.
  double flops() const { return 4.0 * double(batch * heads) * double(queries) * double(keys) * double(head_size); }
  Bytes scores_bytes() const { return bytes_of(batch * heads * queries * keys, dtype); }
};

/// AdamW with decoupled weight decay; `step` counts from 1 (bias correction).
struct AdamW {
  float learning_rate = 1e-3F, beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F, weight_decay = 0;
  std::int64_t step = 1;
};

enum class CopyKind : std::uint8_t { HostToDevice, DeviceToHost, DeviceToDevice };
enum class HostMemory : std::uint8_t { Pageable, Pinned };

class Device;
class TrainingKernels;  // device/training_kernels.h

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
  /// these operands: gemm_and_bias (device/biased_gemm.h) then does it in two passes.
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
  virtual void attention(const AttentionProblem& problem, const void* q, const void* k, const void* v, void* out,
                         void* scores, Stream& stream) = 0;
  /// A kernel that does nothing: what launching costs.
  virtual void empty_kernel(Stream& stream) = 0;
  /// Uniform in [low, high), the same for the same seed on every device.
  virtual void fill_uniform(void* to, std::int64_t count, Dtype dtype, float low, float high, std::uint64_t seed,
                            Stream& stream) = 0;
  /// Converts between F32, BF16, F16 and F8E4M3, rounding to nearest even.
  virtual void cast(void* to, Dtype to_dtype, const void* from, Dtype from_dtype, std::int64_t count,
                    Stream& stream) = 0;
  /// y = x / sqrt(mean(x^2) + epsilon) * weight, by row. x, y: [rows, hidden]; weight: [hidden], all of `dtype`.
  virtual void rms_norm(void* y, const void* x, const void* weight, std::int64_t rows, std::int64_t hidden,
                        float epsilon, Dtype dtype, Stream& stream) = 0;
  /// out = silu(gate) * up.
  virtual void swiglu(void* out, const void* gate, const void* up, std::int64_t count, Dtype dtype, Stream& stream) = 0;
  /// Loss and, in place of the logits, d loss / d logits x `*scale`. logits: [rows, vocab] of `dtype`; labels: int32
  /// [rows], kIgnoredLabel gives loss and gradient 0, any other outside the vocabulary a loss of NaN; losses: fp32
  /// [rows]; scale: one fp32.
  virtual void cross_entropy(void* logits, const std::int32_t* labels, float* losses, std::int64_t rows,
                             std::int64_t vocab, const float* scale, Dtype dtype, Stream& stream) = 0;
  /// One AdamW step on fp32 weights and states; `gradient` is of `gradient_dtype`.
  virtual void adamw(float* weight, const void* gradient, Dtype gradient_dtype, float* m, float* v, std::int64_t count,
                     const AdamW& with, Stream& stream) = 0;
  /// NF4: two codes per byte (the first in the high half), one fp32 absmax per 64 weights. `out` is of `dtype`.
  virtual void nf4_dequantise(void* out, Dtype dtype, const std::uint8_t* codes, const float* absmax,
                              std::int64_t count, Stream& stream) = 0;

  /// What training needs beside; null where this library has none.
  virtual TrainingKernels* training() { return nullptr; }
};

}  // namespace gpuplan
