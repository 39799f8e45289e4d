// Launchers of the training kernels (device/training_kernels.h says what each does) but attention, swiglu_forward and
// nf4_expand, which sequence_attention.h and kernels.h have. They enqueue and return what the launch said. Included by
// .cu files too, so without fmt. Dtypes that a kernel does not take give cudaErrorInvalidValue; what the interface
// wants of one dtype comes as void with it.
#pragma once

#include <cuda_runtime_api.h>

#include "device/training_kernels.h"

namespace gpuplan {
struct AdamWStep;  // device/adamw_step.h
}

namespace gpuplan::cuda {

/// Scratch memory of the stream that is launched on, whose kernels never overlap. Nothing in it is kept between calls.
inline constexpr std::int64_t kScratchFloats = std::int64_t(2) << 20;
inline constexpr Bytes kScratchSize{kScratchFloats * 4};

// --- training_elementwise.cu ----------------------------------------------------------------------------------------

cudaError_t launch_add(Numbers y, ConstNumbers a, ConstNumbers b, std::int64_t count, cudaStream_t stream);
cudaError_t launch_add_scaled(Numbers y, ConstNumbers x, float factor, std::int64_t count, cudaStream_t stream);
cudaError_t launch_add_bias(Numbers y, ConstNumbers bias, std::int64_t rows, std::int64_t width, cudaStream_t stream);
cudaError_t launch_swiglu_backward(Dtype dtype, void* dgate, void* dup, const void* dout, const void* gate,
                                   const void* up, std::int64_t count, cudaStream_t stream);
cudaError_t launch_rotate(Dtype dtype, void* y, const void* x, const RotaryTurn& rotation, cudaStream_t stream);

// --- embedding.cu ---------------------------------------------------------------------------------------------------

cudaError_t launch_embed(Numbers y, ConstNumbers table, const std::int32_t* ids, std::int64_t rows, std::int64_t hidden,
                         cudaStream_t stream);
/// The rows of an id are summed in fp32, in their order, and rounded once per 2048 rows of dy.
cudaError_t launch_embed_backward(Numbers gradient, ConstNumbers dy, const std::int32_t* ids, std::int64_t rows,
                                  std::int64_t hidden, cudaStream_t stream);

// --- norms.cu and training_sums.cu: `scratch` is kScratchSize of memory for sums in two stages
// ------------------------

/// With weight_gradient, hidden is at most kScratchFloats / 2; without, scratch may be null.
cudaError_t launch_rms_norm_backward(Dtype dtype, void* dx, const void* residual, Numbers weight_gradient,
                                     const void* dy, const void* x, ConstNumbers weight, std::int64_t rows,
                                     std::int64_t hidden, float epsilon, float* scratch, cudaStream_t stream);
/// Adds the sum over rows of dy x factors[row]: the last step of the above, whose factors are the first `rows` floats
/// of scratch.
cudaError_t launch_norm_weight_backward(Numbers gradient, Dtype dtype, const void* dy, const void* x, std::int64_t rows,
                                        std::int64_t hidden, float* scratch, cudaStream_t stream);
/// `width` is at most kScratchFloats.
cudaError_t launch_bias_backward(Numbers gradient, ConstNumbers dy, std::int64_t rows, std::int64_t width,
                                 float* scratch, cudaStream_t stream);
cudaError_t launch_add_squares(double* sum, ConstNumbers x, std::int64_t count, float* scratch, cudaStream_t stream);
cudaError_t launch_add_sum(double* sum, const float* x, std::int64_t count, float* scratch, cudaStream_t stream);

// --- optimizers.cu --------------------------------------------------------------------------------------------------

cudaError_t launch_adamw_step(const AdamWRange& range, const AdamWStep& step, float gradient_scale,
                              cudaStream_t stream);
cudaError_t launch_adamw8_step(const AdamW8Range& range, const AdamWStep& step, float gradient_scale,
                               cudaStream_t stream);

}  // namespace gpuplan::cuda
