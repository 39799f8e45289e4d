// The Device of one GPU. Calls select it for the calling thread, so several can be open in a process; one of them is
// for one thread at a time.
#pragma once

#include <memory>

#include "device/cuda/context.h"
#include "device/cuda/gemm.h"
#include "device/cuda/opened.h"
#include "device/cuda/stream.h"
#include "device/cuda/training.h"
#include "device/device.h"

namespace gpuplan::cuda {

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index);

  DeviceFacts facts() const override;
  /// What memory in use grew by when this process first opened the GPU (context, and what its first product and kernel
  /// load; CUDA loads each further kernel at its first launch, which is not counted), and the workspaces of streams
  /// that have multiplied or summed. Measured by NVML, so other processes that allocate at that moment disturb it;
  /// without NVML all that was in use after opening counts, other processes included, and facts() warns.
  Bytes overhead() const override { return cost_.memory + opened_->workspaces.now(); }

  Buffer allocate(Bytes size) override;
  Buffer allocate_host(Bytes size, HostMemory kind) override;

  std::unique_ptr<Stream> create_stream() override;
  std::unique_ptr<Stream> create_stream_for(StreamUse use) override;
  void prepare(Stream& stream) override;
  std::unique_ptr<Event> create_event() override;
  void record(Event& event, Stream& stream) override;
  void wait(Stream& stream, Event& event) override;
  Seconds elapsed(Event& begin, Event& end) override;

  bool can_capture() const override { return true; }
  std::unique_ptr<Graph> capture(std::span<Stream* const> streams, const std::function<void()>& enqueue) override;
  void launch(Graph& graph, Stream& stream) override;

  /// Device to device also between two GPUs that this process has opened, directly where they can.
  void copy(void* to, const void* from, Bytes size, CopyKind kind, Stream& stream) override;
  /// fp8: GemmLayout::Forward everywhere, the other layouts on data-centre Blackwell only; else EnvError.
  void gemm(const GemmProblem& problem, const void* a, const void* b, void* c, Stream& stream) override;
  /// In the product's epilogue, where cuBLASLt has one (gemm_operands.h).
  bool try_gemm_with_bias(const GemmProblem& problem, const void* a, const void* b, void* c, const void* bias,
                          Dtype bias_dtype, Stream& stream) override;
  bool try_gemm_with_bias_gradient(const GemmProblem& problem, const void* a, const void* b, void* c, void* gradient,
                                   Dtype gradient_dtype, Stream& stream) override;
  void attention(const AttentionProblem& problem, const void* q, const void* k, const void* v, void* out, void* scores,
                 Stream& stream) override;
  void empty_kernel(Stream& stream) override;
  void fill_uniform(void* to, std::int64_t count, Dtype dtype, float low, float high, std::uint64_t seed,
                    Stream& stream) override;
  void cast(void* to, Dtype to_dtype, const void* from, Dtype from_dtype, std::int64_t count, Stream& stream) override;
  void rms_norm(void* y, const void* x, const void* weight, std::int64_t rows, std::int64_t hidden, float epsilon,
                Dtype dtype, Stream& stream) override;
  void swiglu(void* out, const void* gate, const void* up, std::int64_t count, Dtype dtype, Stream& stream) override;
  void cross_entropy(void* logits, const std::int32_t* labels, float* losses, std::int64_t rows, std::int64_t vocab,
                     const float* scale, Dtype dtype, Stream& stream) override;
  void adamw(float* weight, const void* gradient, Dtype gradient_dtype, float* m, float* v, std::int64_t count,
             const AdamW& with, Stream& stream) override;
  void nf4_dequantise(void* out, Dtype dtype, const std::uint8_t* codes, const float* absmax, std::int64_t count,
                      Stream& stream) override;

  TrainingKernels* training() override { return &training_; }

 private:
  /// Makes this the calling thread's GPU, and gives the stream that CUDA knows. Streams of other libraries are a
  /// misuse.
  cudaStream_t on(Stream& stream) const;
  void select() const;
  void* workspace_of(Stream& stream) const;
  void warm_up();
  void eager_attention(const AttentionProblem& problem, const void* q, const void* k, const void* v, void* out,
                       void* scores, Stream& stream);
  [[noreturn]] void throw_out_of_memory(Bytes asked) const;

  GpuIdentity gpu_;
  std::shared_ptr<OpenedGpu> opened_;
  std::unique_ptr<GemmRunner> products_;
  OpeningCost cost_;
  /// Sums in two stages share the workspace that products of the stream have.
  CudaTraining training_{{.select = [this](Stream& stream) { return on(stream); },
                          .scratch = [this](Stream& stream) { return workspace_of(stream); }}};
};

}  // namespace gpuplan::cuda
