// Numbers as pointers of their stored type, which is fp32 or bf16 in training.
#pragma once

#include <type_traits>

#include "device/cpu/kernels/number.h"
#include "device/training_kernels.h"

namespace gpuplan {
namespace {

/// Calls f with the data as float* or Bf16*, const where the numbers are.
template <class N, class F>
GPUPLAN_INLINE void with_pointer(N numbers, F f) {
  constexpr bool kIsConst = std::is_same_v<N, ConstNumbers>;
  if (numbers.dtype == Dtype::F32)
    return f(static_cast<std::conditional_t<kIsConst, const float, float>*>(numbers.data));
  if (numbers.dtype == Dtype::BF16)
    return f(static_cast<std::conditional_t<kIsConst, const Bf16, Bf16>*>(numbers.data));
  fail_check("dtype is fp32 or bf16", "a training kernel of the CPU device got another dtype", __FILE__, __LINE__);
}

/// Calls f with one pointer for each of the numbers: a version of f for every mixture of types.
template <class F>
GPUPLAN_INLINE void typed(F f) {
  f();
}
template <class F, class N, class... Rest>
GPUPLAN_INLINE void typed(F f, N first, Rest... rest) {
  with_pointer(first, [=](auto* pointer) { typed([=](auto*... others) { f(pointer, others...); }, rest...); });
}

template <class T>
constexpr Dtype kDtypeOf = std::is_same_v<T, float> ? Dtype::F32 : Dtype::BF16;

/// Of numbers that must be of a type known already.
template <class T>
GPUPLAN_INLINE const T* as(ConstNumbers numbers) {
  if (numbers.dtype != kDtypeOf<T>)
    fail_check("dtypes are equal", "a training kernel of the CPU device got mixed dtypes", __FILE__, __LINE__);
  return static_cast<const T*>(numbers.data);
}
template <class T>
GPUPLAN_INLINE T* as(Numbers numbers) {
  return const_cast<T*>(as<T>(ConstNumbers(numbers.data, numbers.dtype)));
}

}  // namespace
}  // namespace gpuplan
