// Kernels of training without neighbours, and those that take a row at a time but sum nothing.
#include "device/cuda/elements.cuh"
#include "device/cuda/row_blocks.cuh"
#include "device/cuda/training.cuh"
#include "device/cuda/training_launch.h"

namespace gpuplan::cuda {
namespace {

template <class Y, class A, class B>
__global__ void add_kernel(Y* y, const A* a, const B* b, std::int64_t count, bool is_aligned) {
  const Mine mine = my_elements(count, is_aligned);
  float left[kEight] = {}, right[kEight] = {};
  load(left, a + mine.at, mine.size, mine.is_whole);
  load(right, b + mine.at, mine.size, mine.is_whole);
#pragma unroll
  for (int i = 0; i < kEight; ++i) left[i] += right[i];
  store(y + mine.at, left, mine.size, mine.is_whole);
}

template <class Y, class X>
__global__ void add_scaled_kernel(Y* y, const X* x, float factor, std::int64_t count, bool is_aligned) {
  const Mine mine = my_elements(count, is_aligned);
  float sum[kEight] = {}, added[kEight] = {};
  load(sum, y + mine.at, mine.size, mine.is_whole);
  load(added, x + mine.at, mine.size, mine.is_whole);
#pragma unroll
  for (int i = 0; i < kEight; ++i) sum[i] += factor * added[i];
  store(y + mine.at, sum, mine.size, mine.is_whole);
}

/// A block has a row.
template <class Y, class B>
__global__ void add_bias_kernel(Y* y, const B* bias, std::int64_t width, bool is_aligned) {
  Y* const row = y + std::int64_t(blockIdx.x) * width;
  for (std::int64_t at = threadIdx.x * kEight; at < width; at += kRowThreads * kEight) {
    const int size = size_at(at, width);
    const bool is_whole = is_aligned && size == kEight;
    float sum[kEight] = {}, added[kEight] = {};
    load(sum, row + at, size, is_whole);
    load(added, bias + at, size, is_whole);
#pragma unroll
    for (int i = 0; i < kEight; ++i) sum[i] += added[i];
    store(row + at, sum, size, is_whole);
  }
}

/// silu(x) = x s with s = sigmoid(x);  silu'(x) = s (1 + x (1 - s)).
template <class T>
__global__ void swiglu_backward_kernel(T* dgate, T* dup, const T* dout, const T* gate, const T* up, std::int64_t count,
                                       bool is_aligned) {
  const Mine mine = my_elements(count, is_aligned);
  float d[kEight] = {}, g[kEight] = {}, u[kEight] = {};
  load(d, dout + mine.at, mine.size, mine.is_whole);
  load(g, gate + mine.at, mine.size, mine.is_whole);
  load(u, up + mine.at, mine.size, mine.is_whole);
#pragma unroll
  for (int i = 0; i < kEight; ++i) {
    const float x = g[i], s = sigmoid(x);
    g[i] = d[i] * u[i] * (s * (1.0F + x * (1.0F - s)));
    u[i] = d[i] * (x * s);
  }
  store(dgate + mine.at, g, mine.size, mine.is_whole);
  store(dup + mine.at, u, mine.size, mine.is_whole);
}

// --- rotation -------------------------------------------------------------------------------------------------------

/// (a, b) becomes (a cos - b sin, b cos + a sin), for pairs [at, at + size) of a head; `sign` -1 turns back.
template <class T>
__device__ void turn(T* y, const T* x, const float* cosine, const float* sine, float sign, int half, int at, int size,
                     bool is_whole) {
  float a[kEight] = {}, b[kEight] = {}, c[kEight] = {}, s[kEight] = {};
  load(a, x + at, size, is_whole);
  load(b, x + half + at, size, is_whole);
  load(c, cosine + at, size, is_whole);
  load(s, sine + at, size, is_whole);
#pragma unroll
  for (int i = 0; i < kEight; ++i) {
    const float first = a[i], turned = sign * s[i];
    a[i] = first * c[i] - b[i] * turned;
    b[i] = b[i] * c[i] + first * turned;
  }
  store(y + at, a, size, is_whole);
  store(y + half + at, b, size, is_whole);
}

/// A block has a row [heads, head_size], a thread eight pairs of a head at a time, or eight of those that pass.
template <class T>
__global__ void __launch_bounds__(kRowThreads) rotate_kernel(T* y, const T* x, RotaryTurn r, bool is_aligned) {
  const std::int64_t row = std::int64_t(blockIdx.x), angles = row % r.seq * (r.rotary / 2);
  const int half = int(r.rotary / 2), passed = int(r.head_size) - 2 * half;
  const int turned_units = (half + kEight - 1) / kEight, units = turned_units + (passed + kEight - 1) / kEight;
  const float sign = r.is_inverse ? -1.0F : 1.0F;
  for (int i = int(threadIdx.x); i < int(r.heads) * units; i += kRowThreads) {
    const std::int64_t begin = (row * r.heads + i / units) * r.head_size;
    const int unit = i % units;
    if (unit < turned_units) {
      const int at = unit * kEight, size = int(size_at(at, half));
      turn(y + begin, x + begin, r.cosine + angles, r.sine + angles, sign, half, at, size,
           is_aligned && size == kEight);
    } else {
      const int at = (unit - turned_units) * kEight, size = int(size_at(at, passed));
      const bool is_whole = is_aligned && size == kEight;
      float some[kEight];
      load(some, x + begin + 2 * half + at, size, is_whole);
      store(y + begin + 2 * half + at, some, size, is_whole);
    }
  }
}

}  // namespace

cudaError_t launch_add(Numbers y, ConstNumbers a, ConstNumbers b, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  return typed(
      [=](auto* to, auto* left, auto* right) {
        add_kernel<<<num_blocks(count), kThreads, 0, stream>>>(to, left, right, count, are_aligned(to, left, right));
        return cudaGetLastError();
      },
      y, a, b);
}

cudaError_t launch_add_scaled(Numbers y, ConstNumbers x, float factor, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  return typed(
      [=](auto* to, auto* from) {
        add_scaled_kernel<<<num_blocks(count), kThreads, 0, stream>>>(to, from, factor, count, are_aligned(to, from));
        return cudaGetLastError();
      },
      y, x);
}

cudaError_t launch_add_bias(Numbers y, ConstNumbers bias, std::int64_t rows, std::int64_t width, cudaStream_t stream) {
  if (rows == 0 || width == 0) return cudaSuccess;
  return typed(
      [=](auto* to, auto* shift) {
        const bool is_aligned = are_aligned(to, shift) && width % kEight == 0;
        add_bias_kernel<<<unsigned(rows), kRowThreads, 0, stream>>>(to, shift, width, is_aligned);
        return cudaGetLastError();
      },
      y, bias);
}

cudaError_t launch_swiglu_backward(Dtype dtype, void* dgate, void* dup, const void* dout, const void* gate,
                                   const void* up, std::int64_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  return typed(
      [=]<class T>(T* dg) {
        T* const du = static_cast<T*>(dup);
        const T *const d = static_cast<const T*>(dout), *const g = static_cast<const T*>(gate),
                       *const u = static_cast<const T*>(up);
        swiglu_backward_kernel<<<num_blocks(count), kThreads, 0, stream>>>(dg, du, d, g, u, count,
                                                                           are_aligned(dg, du, d, g, u));
        return cudaGetLastError();
      },
      Numbers{dgate, dtype});
}

cudaError_t launch_rotate(Dtype dtype, void* y, const void* x, const RotaryTurn& rotation, cudaStream_t stream) {
  const RotaryTurn r = rotation;
  if (r.batch * r.seq * r.heads * r.head_size == 0) return cudaSuccess;
  return typed(
      [=]<class T>(T* to) {
        const T* const from = static_cast<const T*>(x);
        const bool is_aligned = are_aligned(to, from) && are_aligned(r.cosine, r.sine) &&
                                r.rotary % (2 * kEight) == 0 && r.head_size % kEight == 0;
        rotate_kernel<<<unsigned(r.batch * r.seq), kRowThreads, 0, stream>>>(to, from, r, is_aligned);
        return cudaGetLastError();
      },
      Numbers{y, dtype});
}

}  // namespace gpuplan::cuda
