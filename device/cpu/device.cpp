#include "device/cpu/device.h"

#include "base/error.h"
#include "base/processor.h"
#include "device/cpu/attention.h"
#include "device/cpu/kernels.h"
#include "device/cpu/memory.h"
#include "device/cpu/processor.h"
#include "device/cpu/stream.h"
#include "device/cpu/training.h"

namespace gpuplan {
namespace {

CpuStream& cpu(Stream& stream) { return static_cast<CpuStream&>(stream); }
CpuEvent& cpu(Event& event) { return static_cast<CpuEvent&>(event); }

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
    constexpr int kComputeNiceness =
        19;  // a seventieth of the weight of a thread that communicates: ZeRO-3 is a fifth faster than with 10
    return std::make_unique<CpuStream>(num_threads_, use == StreamUse::Compute ? kComputeNiceness : 0);
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
  void attention(const AttentionProblem& problem, const void* q, const void* k, const void* v, void* out, void* scores,
                 Stream& stream) override {
    CpuStream& s = cpu(stream);
    s.enqueue([=, &s] { cpu_attention(problem, q, k, v, out, scores, s.gemm()); });
  }
  void empty_kernel(Stream& stream) override {
    cpu(stream).enqueue([] {});
  }
  void fill_uniform(void* to, std::int64_t count, Dtype dtype, float low, float high, std::uint64_t seed,
                    Stream& stream) override {
    cpu(stream).enqueue([=] { cpu_kernels().fill_uniform(to, count, dtype, low, high, seed); });
  }
  void cast(void* to, Dtype to_dtype, const void* from, Dtype from_dtype, std::int64_t count, Stream& stream) override {
    cpu(stream).enqueue([=] { cpu_kernels().cast(to, to_dtype, from, from_dtype, count); });
  }
  void rms_norm(void* y, const void* x, const void* weight, std::int64_t rows, std::int64_t hidden, float epsilon,
                Dtype dtype, Stream& stream) override {
    cpu(stream).enqueue([=] { cpu_kernels().rms_norm(y, x, weight, rows, hidden, epsilon, dtype); });
  }
  void swiglu(void* out, const void* gate, const void* up, std::int64_t count, Dtype dtype, Stream& stream) override {
    cpu(stream).enqueue([=] { cpu_kernels().swiglu(out, gate, up, count, dtype); });
  }
  void cross_entropy(void* logits, const std::int32_t* labels, float* losses, std::int64_t rows, std::int64_t vocab,
                     const float* scale, Dtype dtype, Stream& stream) override {
    cpu(stream).enqueue([=] { cpu_kernels().cross_entropy(logits, labels, losses, rows, vocab, *scale, dtype); });
  }
  void adamw(float* weight, const void* gradient, Dtype gradient_dtype, float* m, float* v, std::int64_t count,
             const AdamW& with, Stream& stream) override {
    const AdamWStep step = adamw_step(with);
    cpu(stream).enqueue([=] { cpu_kernels().adamw(weight, gradient, gradient_dtype, m, v, count, step); });
  }
  void nf4_dequantise(void* out, Dtype dtype, const std::uint8_t* codes, const float* absmax, std::int64_t count,
                      Stream& stream) override {
    cpu(stream).enqueue([=] { cpu_kernels().nf4_dequantise(out, dtype, codes, absmax, count); });
  }

  TrainingKernels* training() override { return training_.get(); }

 private:
  int num_threads_;
  std::unique_ptr<TrainingKernels> training_ = make_cpu_training();
};

Seconds CpuDevice::elapsed(Event& begin, Event& end) {
  for (CpuEvent* const event : {&cpu(begin), &cpu(end)})
    GPUPLAN_CHECK(event->mark && event->mark->is_reached, "elapsed time of an event that has not happened");
  return {std::chrono::duration<double>(cpu(end).mark->time - cpu(begin).mark->time).count()};
}

}  // namespace

std::unique_ptr<Device> open_cpu_device(int num_threads) { return std::make_unique<CpuDevice>(num_threads); }

}  // namespace gpuplan
