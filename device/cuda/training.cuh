// Numbers of a training kernel as pointers of their stored type, which is fp32 or bf16.
#pragma once

#include <type_traits>

#include "device/cuda/number.cuh"
#include "device/training_kernels.h"

namespace gpuplan::cuda {

/// Calls `launch` with one pointer for each of the numbers, const where they are: a version of it for every mixture of
/// types.
template <class Launch>
cudaError_t typed(Launch launch) {
  return launch();
}
template <class Launch, class N, class... Rest>
cudaError_t typed(Launch launch, N first, Rest... rest) {
  const auto with = [=](auto* pointer) {
    return typed([=](auto*... others) { return launch(pointer, others...); }, rest...);
  };
  constexpr bool kIsConst = std::is_same_v<N, ConstNumbers>;
  switch (first.dtype) {
    case Dtype::F32: return with(static_cast<std::conditional_t<kIsConst, const float, float>*>(first.data));
    case Dtype::BF16: return with(static_cast<std::conditional_t<kIsConst, const Bf16, Bf16>*>(first.data));
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace gpuplan::cuda
