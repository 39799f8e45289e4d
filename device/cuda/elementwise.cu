// Random numbers, casts and SwiGLU: kernels without neighbours.
#include "device/cuda/elements.cuh"
#include "device/cuda/kernels.h"
#include "device/uniform.h"

namespace gpuplan::cuda {
namespace {

__global__ void empty_kernel() {}

template <class T>
__global__ void fill_kernel(T* to, std::int64_t count, bool is_aligned, float low, float high, std::uint64_t seed) {
  const Mine mine = my_elements(count, is_aligned);
  float x[kEight];
#pragma unroll
  for (int i = 0; i < kEight; ++i) x[i] = uniform(seed, std::uint64_t(mine.at + i), low, high);
  store(to + mine.at, x, mine.size, mine.is_whole);
}

template <class To, class From>
__global__ void cast_kernel(To* to, const From* from, std::int64_t count, bool is_aligned) {
  const Mine mine = my_elements(count, is_aligned);
  float x[kEight] = {};
  load(x, from + mine.at, mine.size, mine.is_whole);
  store(to + mine.at, x, mine.size, mine.is_whole);
}

template <class T>
__global__ void swiglu_kernel(T* out, const T* gate, const T* up, std::int64_t count, bool is_aligned) {
  const Mine mine = my_elements(count, is_aligned);
  float g[kEight] = {}, u[kEight] = {};
  load(g, gate + mine.at, mine.size, mine.is_whole);
  load(u, up + mine.at, mine.size, mine.is_whole);
#pragma unroll
  for (int i = 0; i < kEight; ++i) u[i] *= g[i] * sigmoid(g[i]);
  store(out + mine.at, u, mine.size, mine.is_whole);
}

template <class To>
cudaError_t launch_cast_to(To* to, const void* from, Dtype from_dtype, std::int64_t count, cudaStream_t stream) {
  const auto launch = [=]<class From>(const From* typed) {
    cast_kernel<<<num_blocks(count), kThreads, 0, stream>>>(to, typed, count, are_aligned(to, typed));
    return cudaGetLastError();
  };
  if (from_dtype == Dtype::F8E4M3) return launch(static_cast<const F8*>(from));
  return with_type(from_dtype, [&]<class From>(From*) { return launch(static_cast<const From*>(from)); });
}

}  // namespace

cudaError_t launch_empty(cudaStream_t stream) {
  empty_kernel<<<1, 1, 0, stream>>>();
  return cudaGetLastError();
}

cudaError_t launch_fill_uniform(void* to, std::int64_t count, Dtype dtype, float low, float high, std::uint64_t seed,
                                cudaStream_t stream) {
  const auto launch = [=]<class T>(T*) {
    T* const typed = static_cast<T*>(to);
    fill_kernel<<<num_blocks(count), kThreads, 0, stream>>>(typed, count, are_aligned(typed), low, high, seed);
    return cudaGetLastError();
  };
  if (count == 0) return cudaSuccess;
  return dtype == Dtype::F8E4M3 ? launch(static_cast<F8*>(nullptr)) : with_type(dtype, launch);
}

cudaError_t launch_cast(void* to, Dtype to_dtype, const void* from, Dtype from_dtype, std::int64_t count,
                        cudaStream_t stream) {
  const auto launch = [=]<class To>(To*) {
    return launch_cast_to(static_cast<To*>(to), from, from_dtype, count, stream);
  };
  if (count == 0) return cudaSuccess;
  return to_dtype == Dtype::F8E4M3 ? launch(static_cast<F8*>(nullptr)) : with_type(to_dtype, launch);
}

cudaError_t launch_swiglu(void* out, const void* gate, const void* up, std::int64_t count, Dtype dtype,
                          cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  return with_type(dtype, [=]<class T>(T*) {
    swiglu_kernel<<<num_blocks(count), kThreads, 0, stream>>>(
        static_cast<T*>(out), static_cast<const T*>(gate), static_cast<const T*>(up), count,
        are_aligned(static_cast<T*>(out), static_cast<const T*>(gate), static_cast<const T*>(up)));
    return cudaGetLastError();
  });
}

}  // namespace gpuplan::cuda
