// A Device whose kernels are those of device/cuda, run by the emulator. Products are done by a stand-in for cuBLASLt.
#include <cstdlib>

#include "base/error.h"
#include "cuda_device/emulated/emulator.h"
#include "cuda_device/kernels/device_under_test.h"
#include "cuda_device/lt_reference.h"
#include "device/cuda/launch.h"
#include "device/cuda/number.cuh"

namespace gpuplan::test {
namespace {

void check(cudaError_t status) {
  if (status != cudaSuccess) throw EnvError("a launcher refused");
}

struct NoStream final : Stream {
  void synchronise() override {}
  void run_on_host(std::function<void()> task) override { task(); }
};

template <class T>
Doubles read(const void* from, std::int64_t count) {
  Doubles numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(double(cuda::to_float(static_cast<const T*>(from)[i])));
  return numbers;
}
template <class T>
void write(void* to, const Doubles& numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i) static_cast<T*>(to)[i] = cuda::rounded<T>(float(numbers[i]));
}

class EmulatedDevice final : public Device {
 public:
  DeviceFacts facts() const override { return {.kind = DeviceKind::Cuda, .gemm_types = cuda::gemm_types({8, 0})}; }
  Bytes overhead() const override { return {}; }
  Buffer allocate(Bytes size) override {
    void* const memory = std::aligned_alloc(256, std::size_t(size.count + 511) / 256 * 256);
    return {memory, size, std::shared_ptr<void>(memory, &std::free)};
  }
  Buffer allocate_host(Bytes size, HostMemory) override { return allocate(size); }
  std::unique_ptr<Stream> create_stream() override { return std::make_unique<NoStream>(); }
  std::unique_ptr<Event> create_event() override { return nullptr; }
  void record(Event&, Stream&) override {}
  void wait(Stream&, Event&) override {}
  Seconds elapsed(Event&, Event&) override { return {}; }
  void copy(void* to, const void* from, Bytes size, CopyKind, Stream&) override {
    std::memcpy(to, from, std::size_t(size.count));
  }
  void gemm(const GemmProblem& p, const void* a, const void* b, void* c, Stream&) override {
    check(cuda::with_type(p.output, [&]<class T>(T*) {
      Doubles result = read<T>(c, p.m * p.n * p.batch);
      lt_product(p, read<T>(a, p.m * p.k * p.batch), read<T>(b, p.n * p.k * p.batch), result);
      write<T>(c, result);
      return cudaSuccess;
    }));
  }
  void run(const KernelCall& kernel, Stream&) override {
    check(std::visit([this](const auto& k) { return cuda::launch(k, stream_); }, kernel));
  }

 private:
  struct ScratchStream final : cuda::LaunchStream {
    explicit ScratchStream(Buffer buffer) : LaunchStream(nullptr), memory(std::move(buffer)) {}
    float* scratch() override { return memory.as<float>(); }
    Buffer memory;
  };
  ScratchStream stream_{allocate(cuda::kScratchSize)};
};

}  // namespace

Device& device_under_test() {
  static EmulatedDevice device;
  return device;
}

}  // namespace gpuplan::test
