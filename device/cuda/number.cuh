// Numbers in kernels: every dtype is read into fp32 and rounded from it, eight at a time where the address allows; and
// arguments as pointers of their stored type.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "device/kernels.h"

namespace gpuplan::cuda {

using Bf16 = __nv_bfloat16;
using F16 = __half;
using F8 = __nv_fp8_e4m3;

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(Bf16 x) { return __bfloat162float(x); }
__device__ inline float to_float(F16 x) { return __half2float(x); }
__device__ inline float to_float(F8 x) { return float(x); }

template <class T>
__device__ T rounded(float x);
template <>
__device__ inline float rounded<float>(float x) {
  return x;
}
template <>
__device__ inline Bf16 rounded<Bf16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline F16 rounded<F16>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline F8 rounded<F8>(float x) {
  return F8(x);
}

/// Calls `launch` with a null pointer of the dtype's type: fp32, bf16 or fp16.
template <class Launch>
cudaError_t with_type(Dtype dtype, Launch launch) {
  switch (dtype) {
    case Dtype::F32: return launch(static_cast<float*>(nullptr));
    case Dtype::BF16: return launch(static_cast<Bf16*>(nullptr));
    case Dtype::F16: return launch(static_cast<F16*>(nullptr));
    default: return cudaErrorInvalidValue;
  }
}

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

// --- eight at a time ------------------------------------------------------------------------------------------------

constexpr int kEight = 8;

/// Says whether eight elements of each can be moved as one vector.
template <class... T>
bool are_aligned(const T*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

/// `size` elements, 8 of them in one go when `is_whole`; the rest of `x` is left as it is.
template <class T>
__device__ void load(float (&x)[kEight], const T* from, int size, bool is_whole) {
  if (is_whole) {
    using Vector = std::conditional_t<sizeof(T) == 1, uint2, uint4>;
    constexpr int kPerVector = int(sizeof(Vector) / sizeof(T));
#pragma unroll
    for (int part = 0; part < kEight / kPerVector; ++part) {
      const Vector vector = reinterpret_cast<const Vector*>(from)[part];
      T some[kPerVector];
      memcpy(some, &vector, sizeof vector);
#pragma unroll
      for (int i = 0; i < kPerVector; ++i) x[part * kPerVector + i] = to_float(some[i]);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kEight; ++i)
    if (i < size) x[i] = to_float(from[i]);
}

template <class T>
__device__ void store(T* to, const float (&x)[kEight], int size, bool is_whole) {
  if (is_whole) {
    using Vector = std::conditional_t<sizeof(T) == 1, uint2, uint4>;
    constexpr int kPerVector = int(sizeof(Vector) / sizeof(T));
#pragma unroll
    for (int part = 0; part < kEight / kPerVector; ++part) {
      T some[kPerVector];
#pragma unroll
      for (int i = 0; i < kPerVector; ++i) some[i] = rounded<T>(x[part * kPerVector + i]);
      Vector vector;
      memcpy(&vector, some, sizeof vector);
      reinterpret_cast<Vector*>(to)[part] = vector;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kEight; ++i)
    if (i < size) to[i] = rounded<T>(x[i]);
}

}  // namespace gpuplan::cuda
