// Kernels without neighbours: each thread has eight elements, and memory bandwidth is the limit.
#include <type_traits>

#include "device/adamw_step.h"
#include "device/cuda/kernels.h"
#include "device/cuda/number.cuh"
#include "device/nf4.h"
#include "device/uniform.h"

namespace gpuplan::cuda {
namespace {

constexpr int kThreads = 256;

unsigned num_blocks(std::int64_t count) { return unsigned((count + kThreads * kEight - 1) / (kThreads * kEight)); }

/// The elements of this thread: [at, at + size).
struct Mine {
  std::int64_t at;
  int size;
  bool is_whole;  // may be moved as a vector
};
__device__ Mine my_elements(std::int64_t count, bool is_aligned) {
  const std::int64_t at = (std::int64_t(blockIdx.x) * kThreads + threadIdx.x) * kEight, left = count - at;
  const int size = left >= kEight ? kEight : left > 0 ? int(left) : 0;
  return {at, size, is_aligned && size == kEight};
}

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
  for (int i = 0; i < kEight; ++i) u[i] *= g[i] / (1.0F + __expf(-g[i]));
  store(out + mine.at, u, mine.size, mine.is_whole);
}

template <class T>
__global__ void adamw_kernel(float* weight, const T* gradient, float* m, float* v, std::int64_t count, bool is_aligned,
                             AdamWStep step) {
  const Mine mine = my_elements(count, is_aligned);
  float w[kEight] = {}, g[kEight] = {}, first[kEight] = {}, second[kEight] = {};
  load(w, weight + mine.at, mine.size, mine.is_whole);
  load(g, gradient + mine.at, mine.size, mine.is_whole);
  load(first, m + mine.at, mine.size, mine.is_whole);
  load(second, v + mine.at, mine.size, mine.is_whole);
#pragma unroll
  for (int i = 0; i < kEight; ++i) {
    first[i] = step.beta1 * first[i] + (1.0F - step.beta1) * g[i];
    second[i] = step.beta2 * second[i] + (1.0F - step.beta2) * g[i] * g[i];
    w[i] = w[i] * step.decay - step.rate * first[i] / (sqrtf(second[i]) * step.root + step.epsilon);
  }
  store(weight + mine.at, w, mine.size, mine.is_whole);
  store(m + mine.at, first, mine.size, mine.is_whole);
  store(v + mine.at, second, mine.size, mine.is_whole);
}

struct Nf4Table {
  float level[16];
};

/// Eight weights are four bytes of codes, and never of two blocks.
template <class T>
__global__ void nf4_kernel(T* out, const std::uint8_t* codes, const float* absmax, std::int64_t count, bool is_aligned,
                           Nf4Table levels) {
  static_assert(kNf4Block % kEight == 0);
  __shared__ float level[16];  // constant memory would serve one address at a time
  if (threadIdx.x == 0)
    for (int i = 0; i < 16; ++i) level[i] = levels.level[i];
  __syncthreads();
  const Mine mine = my_elements(count, is_aligned);
  if (mine.size == 0) return;
  const float scale = absmax[mine.at / kNf4Block];
  const std::uint8_t* const from = codes + mine.at / 2;
  std::uint8_t bytes[kEight / 2] = {};
  if (mine.is_whole) {
    const auto word = *reinterpret_cast<const std::uint32_t*>(from);
    memcpy(bytes, &word, sizeof word);
  } else {
    for (int i = 0; i < (mine.size + 1) / 2; ++i) bytes[i] = from[i];
  }
  float x[kEight];
#pragma unroll
  for (int i = 0; i < kEight; ++i) x[i] = scale * level[(bytes[i / 2] >> (i % 2 == 0 ? 4 : 0)) & 15];
  store(out + mine.at, x, mine.size, mine.is_whole);
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

cudaError_t launch_cast(void* to, Dtype to_dtype, const void* from, Dtype from_dtype, std::int64_t count, cudaStream_t stream) {
  const auto launch = [=]<class To>(To*) { return launch_cast_to(static_cast<To*>(to), from, from_dtype, count, stream); };
  if (count == 0) return cudaSuccess;
  return to_dtype == Dtype::F8E4M3 ? launch(static_cast<F8*>(nullptr)) : with_type(to_dtype, launch);
}

cudaError_t launch_swiglu(void* out, const void* gate, const void* up, std::int64_t count, Dtype dtype, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  return with_type(dtype, [=]<class T>(T*) {
    swiglu_kernel<<<num_blocks(count), kThreads, 0, stream>>>(static_cast<T*>(out), static_cast<const T*>(gate),
                                                              static_cast<const T*>(up), count,
                                                              are_aligned(static_cast<T*>(out), static_cast<const T*>(gate),
                                                                          static_cast<const T*>(up)));
    return cudaGetLastError();
  });
}

cudaError_t launch_adamw(float* weight, const void* gradient, Dtype gradient_dtype, float* m, float* v, std::int64_t count,
                         const AdamWStep& step, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  return with_type(gradient_dtype, [=]<class T>(T*) {
    const auto* const typed = static_cast<const T*>(gradient);
    adamw_kernel<<<num_blocks(count), kThreads, 0, stream>>>(weight, typed, m, v, count, are_aligned(weight, typed, m, v), step);
    return cudaGetLastError();
  });
}

cudaError_t launch_nf4_dequantise(void* out, Dtype dtype, const std::uint8_t* codes, const float* absmax, std::int64_t count,
                                  cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  Nf4Table table;
  memcpy(table.level, kNf4Levels, sizeof table.level);
  return with_type(dtype, [=]<class T>(T*) {
    T* const typed = static_cast<T*>(out);
    nf4_kernel<<<num_blocks(count), kThreads, 0, stream>>>(typed, codes, absmax, count, are_aligned(typed, codes), table);
    return cudaGetLastError();
  });
}

}  // namespace gpuplan::cuda
