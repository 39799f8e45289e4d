// The Device of one GPU. Calls select it for the calling thread, so several can be open in a process; one of them is
// for one thread at a time.
#pragma once

#include <memory>

#include "device/cuda/context.h"
#include "device/cuda/gemm.h"
#include "device/cuda/stream.h"
#include "device/device.h"

namespace gpuplan::cuda {

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index);

  DeviceFacts facts() const override;
  /// Growth of the memory in use when this process first opened the GPU (context, and what its first product and kernel
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
  /// Adds the bias in the product's epilogue, where cuBLASLt has one (gemm_operands.h).
  bool try_gemm_with_bias(const GemmProblem& problem, const void* a, const void* b, void* c, const void* bias,
                          Dtype bias_dtype, Stream& stream) override;
  bool try_gemm_with_bias_gradient(const GemmProblem& problem, const void* a, const void* b, void* c, void* gradient,
                                   Dtype gradient_dtype, Stream& stream) override;
  /// A misuse that device/kernels.h names (dtypes, heads) is a BugError, all else that a launch says an EnvError.
  void run(const KernelCall& kernel, Stream& stream) override;

 private:
  /// Makes this the calling thread's GPU, and gives the stream that CUDA knows. Streams of other libraries are a
  /// misuse.
  cudaStream_t on(Stream& stream) const;
  void select() const;
  void* workspace_of(Stream& stream) const;
  void warm_up();
  [[noreturn]] void throw_out_of_memory(Bytes asked) const;

  GpuIdentity gpu_;
  std::shared_ptr<OpenedGpu> opened_;
  std::unique_ptr<GemmRunner> products_;
  OpeningCost cost_;
};

}  // namespace gpuplan::cuda
