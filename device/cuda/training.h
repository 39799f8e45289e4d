// The training kernels of a GPU: what enqueues them on a device's streams.
#pragma once

#include <functional>
#include <utility>

#include <cuda_runtime_api.h>

#include "device/training_kernels.h"

namespace gpuplan::cuda {

/// What launching asks of a device.
struct TrainingStreams {
  /// Makes the stream's GPU the calling thread's, and gives the stream that CUDA knows.
  std::function<cudaStream_t(Stream&)> select;
  /// At least kScratchSize (training_launch.h) of device memory that is this stream's alone.
  std::function<void*(Stream&)> scratch;
};

/// A misuse that the interface names (dtypes, heads) is a BugError, all else that a launch says an EnvError.
class CudaTraining final : public TrainingKernels {
 public:
  explicit CudaTraining(TrainingStreams streams) : streams_(std::move(streams)) {}

  void zero(void* data, Bytes size, Stream& stream) override;
  void add(Numbers y, ConstNumbers a, ConstNumbers b, std::int64_t count, Stream& stream) override;
  void add_scaled(Numbers y, ConstNumbers x, float factor, std::int64_t count, Stream& stream) override;
  void embed(Numbers y, ConstNumbers table, const std::int32_t* ids, std::int64_t rows, std::int64_t hidden,
             Stream& stream) override;
  void embed_backward(Numbers gradient, ConstNumbers dy, const std::int32_t* ids, std::int64_t rows,
                      std::int64_t hidden, Stream& stream) override;
  void add_bias(Numbers y, ConstNumbers bias, std::int64_t rows, std::int64_t width, Stream& stream) override;
  void bias_backward(Numbers gradient, ConstNumbers dy, std::int64_t rows, std::int64_t width, Stream& stream) override;
  void rms_norm_forward(Numbers y, ConstNumbers x, ConstNumbers weight, std::int64_t rows, std::int64_t hidden,
                        float epsilon, Stream& stream) override;
  void rms_norm_backward(Numbers dx, const void* residual, Numbers weight_gradient, ConstNumbers dy, ConstNumbers x,
                         ConstNumbers weight, std::int64_t rows, std::int64_t hidden, float epsilon,
                         Stream& stream) override;
  void rotate(Numbers y, ConstNumbers x, const RotaryTurn& rotation, Stream& stream) override;
  void attention_forward(const SequenceAttention& shape, const void* q, const void* k, const void* v, void* out,
                         float* lse, Stream& stream) override;
  void attention_backward(const SequenceAttention& shape, const void* dout, const void* q, const void* k, const void* v,
                          const void* out, const float* lse, void* dq, void* dk, void* dv, float* scratch,
                          Stream& stream) override;
  void swiglu_forward(Numbers out, ConstNumbers gate, ConstNumbers up, std::int64_t count, Stream& stream) override;
  void swiglu_backward(Numbers dgate, Numbers dup, ConstNumbers dout, ConstNumbers gate, ConstNumbers up,
                       std::int64_t count, Stream& stream) override;
  void add_squares(double* sum, ConstNumbers x, std::int64_t count, Stream& stream) override;
  void add_sum(double* sum, const float* x, std::int64_t count, Stream& stream) override;
  void adamw_step(const AdamWRange& range, const AdamW& with, float gradient_scale, Stream& stream) override;
  void adamw8_step(const AdamW8Range& range, const AdamW& with, float gradient_scale, Stream& stream) override;
  void nf4_expand(Numbers out, const std::uint8_t* codes, const std::uint8_t* absmax_codes, const float* absmax_scales,
                  float absmax_offset, std::int64_t count, Stream& stream) override;

 private:
  float* scratch(Stream& stream) const { return static_cast<float*>(streams_.scratch(stream)); }

  TrainingStreams streams_;
};

}  // namespace gpuplan::cuda
