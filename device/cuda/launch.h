// The launchers of the kernels (device/kernels.h), one overload each, defined in the .cu files. They enqueue and return
// what the launch said; dtypes and shapes that a kernel does not take give cudaErrorInvalidValue, a mixture of dtypes
// where one is asked for is a BugError. Included by .cu files, so without fmt.
#pragma once

#include <cuda_runtime_api.h>

#include "base/error.h"
#include "device/kernels.h"

namespace gpuplan::cuda {

/// Scratch memory of a stream, whose kernels never overlap, for sums in two stages. Nothing in it is kept between
/// calls.
inline constexpr std::int64_t kScratchFloats = std::int64_t(2) << 20;
inline constexpr Bytes kScratchSize{kScratchFloats * 4};

/// The stream that a kernel is launched on.
class LaunchStream {
 public:
  explicit LaunchStream(cudaStream_t stream) : native(stream) {}
  virtual ~LaunchStream() = default;
  /// kScratchSize of device memory that is this stream's alone.
  virtual float* scratch() = 0;

  const cudaStream_t native;
};

#define GPUPLAN_CUDA_LAUNCHER(Name) cudaError_t launch(const kernels::Name& k, LaunchStream& on);
GPUPLAN_KERNELS(GPUPLAN_CUDA_LAUNCHER)
#undef GPUPLAN_CUDA_LAUNCHER

/// Adds the sum over rows of dy x factors[row] to weight_gradient: the last step of RmsNormBackward, whose factors are
/// the first `rows` floats of scratch (sums.cu).
cudaError_t launch_norm_weight_backward(const kernels::RmsNormBackward& k, float* scratch, cudaStream_t stream);

/// The dtype of numbers that are all of one.
template <class... Rest>
Dtype common_dtype(ConstNumbers first, Rest... rest) {
  GPUPLAN_CHECK(((ConstNumbers(rest).dtype == first.dtype) && ...), "a kernel of a GPU got mixed dtypes");
  return first.dtype;
}

}  // namespace gpuplan::cuda
