// A Device whose kernels are those of device/cuda, run by the emulator. Products are done by a stand-in for cuBLASLt.
#include <cstdlib>

#include "base/error.h"
#include "cuda_device/emulated/emulator.h"
#include "cuda_device/kernels/device_under_test.h"
#include "cuda_device/lt_reference.h"
#include "device/adamw_step.h"
#include "device/cuda/kernels.h"
#include "device/cuda/number.cuh"
#include "device/cuda/training.h"
#include "device/cuda/training_launch.h"
#include "device/eager_attention.h"

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
Numbers read(const void* from, std::int64_t count) {
  Numbers numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(double(cuda::to_float(static_cast<const T*>(from)[i])));
  return numbers;
}
template <class T>
void write(void* to, const Numbers& numbers) {
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
      Numbers result = read<T>(c, p.m * p.n * p.batch);
      lt_product(p, read<T>(a, p.m * p.k * p.batch), read<T>(b, p.n * p.k * p.batch), result);
      write<T>(c, result);
      return cudaSuccess;
    }));
  }
  void attention(const AttentionProblem& p, const void* q, const void* k, const void* v, void* out, void* scores,
                 Stream& stream) override {
    if (p.kernel == AttentionMethod::Flash) {
      const cuda::FlashShape shape{.batch = p.batch,
                                   .heads = p.heads,
                                   .kv_heads = p.kv_heads,
                                   .queries = p.queries,
                                   .keys = p.keys,
                                   .head_size = int(p.head_size),
                                   .is_causal = p.is_causal};
      return check(cuda::launch_flash(shape, p.dtype, q, k, v, out, nullptr));
    }
    const auto [score_product, value_product] = eager_products(p);
    gemm(score_product, q, k, scores, stream);
    check(cuda::launch_softmax(scores, p.batch * p.heads, p.queries, p.keys, p.is_causal, p.dtype, nullptr));
    gemm(value_product, scores, v, out, stream);
  }
  void empty_kernel(Stream&) override { check(cuda::launch_empty(nullptr)); }
  void fill_uniform(void* to, std::int64_t count, Dtype dtype, float low, float high, std::uint64_t seed,
                    Stream&) override {
    check(cuda::launch_fill_uniform(to, count, dtype, low, high, seed, nullptr));
  }
  void cast(void* to, Dtype to_dtype, const void* from, Dtype from_dtype, std::int64_t count, Stream&) override {
    check(cuda::launch_cast(to, to_dtype, from, from_dtype, count, nullptr));
  }
  void rms_norm(void* y, const void* x, const void* weight, std::int64_t rows, std::int64_t hidden, float epsilon,
                Dtype dtype, Stream&) override {
    check(cuda::launch_rms_norm(y, x, dtype, weight, dtype, rows, hidden, epsilon, nullptr));
  }
  void swiglu(void* out, const void* gate, const void* up, std::int64_t count, Dtype dtype, Stream&) override {
    check(cuda::launch_swiglu(out, gate, up, count, dtype, nullptr));
  }
  void cross_entropy(void* logits, const std::int32_t* labels, float* losses, std::int64_t rows, std::int64_t vocab,
                     const float* scale, Dtype dtype, Stream&) override {
    check(cuda::launch_cross_entropy(logits, labels, losses, rows, vocab, scale, dtype, nullptr));
  }
  void adamw(float* weight, const void* gradient, Dtype gradient_dtype, float* m, float* v, std::int64_t count,
             const AdamW& with, Stream&) override {
    check(cuda::launch_adamw(weight, gradient, gradient_dtype, m, v, count, adamw_step(with), nullptr));
  }
  void nf4_dequantise(void* out, Dtype dtype, const std::uint8_t* codes, const float* absmax, std::int64_t count,
                      Stream&) override {
    check(cuda::launch_nf4_dequantise(out, dtype, codes, absmax, count, nullptr));
  }
  TrainingKernels* training() override { return &training_; }

 private:
  Buffer scratch_ = allocate(cuda::kScratchSize);
  cuda::CudaTraining training_{
      {.select = [](Stream&) { return cudaStream_t{}; }, .scratch = [this](Stream&) { return scratch_.data(); }}};
};

}  // namespace

Device& device_under_test() {
  static EmulatedDevice device;
  return device;
}

}  // namespace gpuplan::test
