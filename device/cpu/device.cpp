// The CPU as a Device: every call puts a task on its stream. This is what libgpuplan_cpu.so exports.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/processor.h"
#include "device/backend.h"
#include "device/cpu/host.h"
#include "device/cpu/kernels.h"
#include "device/cpu/stream.h"

namespace gpuplan {
namespace {

CpuStream& cpu(Stream& stream) { return static_cast<CpuStream&>(stream); }
CpuEvent& cpu(Event& event) { return static_cast<CpuEvent&>(event); }

/// memcpy; large ones by all threads of the team.
void parallel_copy(void* to, const void* from, std::int64_t size) {
  constexpr std::int64_t kPiece = 256 << 10;  // a piece costs about 20 us, a team 2 us
#pragma omp parallel for schedule(static) if (size > kPiece)
  for (std::int64_t begin = 0; begin < size; begin += kPiece)
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                std::size_t(std::min(kPiece, size - begin)));
}

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int num_threads) : num_threads_(num_threads > 0 ? num_threads : num_usable_cores()) {}

  DeviceFacts facts() const override { return cpu_facts(num_threads_); }
  Bytes overhead() const override { return {}; }
  Buffer allocate(Bytes size) override { return host_memory(size); }
  Buffer allocate_host(Bytes size, HostMemory) override { return host_memory(size); }  // nothing to pin it for

  std::unique_ptr<Stream> create_stream() override { return std::make_unique<CpuStream>(num_threads_); }
  /// Communication waits for its peers' threads: where ranks fill all cores, each turn it must wait for costs
  /// milliseconds.
  std::unique_ptr<Stream> create_stream_for(StreamUse use) override {
    return std::make_unique<CpuStream>(num_threads_, use);
  }
  std::unique_ptr<Event> create_event() override { return std::make_unique<CpuEvent>(); }
  void record(Event& event, Stream& stream) override { cpu(stream).record(cpu(event)); }
  void wait(Stream& stream, Event& event) override { cpu(stream).wait(cpu(event)); }
  Seconds elapsed(Event& begin, Event& end) override;

  void copy(void* to, const void* from, Bytes size, CopyKind, Stream& stream) override {
    cpu(stream).enqueue([=] { parallel_copy(to, from, size.count); });
  }
  void gemm(const GemmProblem& problem, const void* a, const void* b, void* c, Stream& stream) override {
    CpuStream& s = cpu(stream);
    s.enqueue([=, &s] { s.gemm().run(problem, a, b, c); });
  }
  void run(const KernelCall& kernel, Stream& stream) override {
    cpu(stream).enqueue([kernel] { std::visit([](const auto& k) { cpu_kernels().of(k)(k); }, kernel); });
  }

 private:
  int num_threads_;
};

Seconds CpuDevice::elapsed(Event& begin, Event& end) {
  for (CpuEvent* const event : {&cpu(begin), &cpu(end)})
    GPUPLAN_CHECK(event->mark && event->mark->is_reached, "elapsed time of an event that has not happened");
  return {std::chrono::duration<double>(cpu(end).mark->time - cpu(begin).mark->time).count()};
}

class CpuBackend final : public DeviceBackend {
 public:
  int num_devices() const override { return 1; }
  std::unique_ptr<Device> open(const DeviceOptions& options) override {
    cpu_kernels();  // a wrong GPUPLAN_CPU_VARIANT is refused here, not in a stream's work
    return std::make_unique<CpuDevice>(options.num_threads);
  }
};

}  // namespace

const CpuKernels& cpu_kernels() {
  static const CpuKernels& kernels = GPUPLAN_PICK_VARIANT(kKernels);
  return kernels;
}

}  // namespace gpuplan

extern "C" __attribute__((visibility("default"))) gpuplan::DeviceBackend* gpuplan_device_backend(int abi) {
  static gpuplan::CpuBackend backend;
  return abi == gpuplan::kDeviceAbi ? &backend : nullptr;
}
