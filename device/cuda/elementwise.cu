// Kernels without neighbours, and those that take a row at a time but sum nothing.
#include "device/cuda/launch.h"
#include "device/cuda/threads.cuh"

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

template <class To>
cudaError_t launch_cast_to(To* to, const kernels::Cast& k, cudaStream_t stream) {
  const auto launch_from = [=]<class From>(const From* from) {
    cast_kernel<<<num_blocks(k.count), kThreads, 0, stream>>>(to, from, k.count, are_aligned(to, from));
    return cudaGetLastError();
  };
  if (k.from.dtype == Dtype::F8E4M3) return launch_from(static_cast<const F8*>(k.from.data));
  return with_type(k.from.dtype, [&]<class From>(From*) { return launch_from(static_cast<const From*>(k.from.data)); });
}

}  // namespace

cudaError_t launch(const kernels::Empty&, LaunchStream& on) {
  const cudaStream_t stream = on.native;
  empty_kernel<<<1, 1, 0, stream>>>();
  return cudaGetLastError();
}

cudaError_t launch(const kernels::FillUniform& k, LaunchStream& on) {
  const cudaStream_t stream = on.native;
  const auto launch_to = [=]<class T>(T*) {
    T* const to = static_cast<T*>(k.to.data);
    fill_kernel<<<num_blocks(k.count), kThreads, 0, stream>>>(to, k.count, are_aligned(to), k.low, k.high, k.seed);
    return cudaGetLastError();
  };
  if (k.count == 0) return cudaSuccess;
  return k.to.dtype == Dtype::F8E4M3 ? launch_to(static_cast<F8*>(nullptr)) : with_type(k.to.dtype, launch_to);
}

/// Casts; to fp8 values that are too large become the largest finite value.
cudaError_t launch(const kernels::Cast& k, LaunchStream& on) {
  const auto launch_to = [&]<class To>(To*) { return launch_cast_to(static_cast<To*>(k.to.data), k, on.native); };
  if (k.count == 0) return cudaSuccess;
  return k.to.dtype == Dtype::F8E4M3 ? launch_to(static_cast<F8*>(nullptr)) : with_type(k.to.dtype, launch_to);
}

cudaError_t launch(const kernels::Zero& k, LaunchStream& on) {
  return k.size.count > 0 ? cudaMemsetAsync(k.data, 0, std::size_t(k.size.count), on.native) : cudaSuccess;
}

cudaError_t launch(const kernels::Add& k, LaunchStream& on) {
  if (k.count == 0) return cudaSuccess;
  return typed(
      [count = k.count, stream = on.native](auto* y, auto* a, auto* b) {
        add_kernel<<<num_blocks(count), kThreads, 0, stream>>>(y, a, b, count, are_aligned(y, a, b));
        return cudaGetLastError();
      },
      k.y, k.a, k.b);
}

cudaError_t launch(const kernels::AddScaled& k, LaunchStream& on) {
  if (k.count == 0) return cudaSuccess;
  return typed(
      [count = k.count, factor = k.factor, stream = on.native](auto* y, auto* x) {
        add_scaled_kernel<<<num_blocks(count), kThreads, 0, stream>>>(y, x, factor, count, are_aligned(y, x));
        return cudaGetLastError();
      },
      k.y, k.x);
}

cudaError_t launch(const kernels::AddBias& k, LaunchStream& on) {
  if (k.rows == 0 || k.width == 0) return cudaSuccess;
  return typed(
      [rows = k.rows, width = k.width, stream = on.native](auto* y, auto* bias) {
        const bool is_aligned = are_aligned(y, bias) && width % kEight == 0;
        add_bias_kernel<<<unsigned(rows), kRowThreads, 0, stream>>>(y, bias, width, is_aligned);
        return cudaGetLastError();
      },
      k.y, k.bias);
}

cudaError_t launch(const kernels::SwiGlu& k, LaunchStream& on) {
  const Dtype dtype = common_dtype(k.out, k.gate, k.up);
  if (k.count == 0) return cudaSuccess;
  return with_type(dtype, [k, stream = on.native]<class T>(T*) {
    T* const out = static_cast<T*>(k.out.data);
    const T *const gate = static_cast<const T*>(k.gate.data), *const up = static_cast<const T*>(k.up.data);
    swiglu_kernel<<<num_blocks(k.count), kThreads, 0, stream>>>(out, gate, up, k.count, are_aligned(out, gate, up));
    return cudaGetLastError();
  });
}

cudaError_t launch(const kernels::SwiGluBackward& k, LaunchStream& on) {
  static_cast<void>(common_dtype(k.dgate, k.dup, k.dout, k.gate, k.up));
  if (k.count == 0) return cudaSuccess;
  return typed(
      [k, stream = on.native]<class T>(T* dgate) {
        T* const dup = static_cast<T*>(k.dup.data);
        const T *const dout = static_cast<const T*>(k.dout.data), *const gate = static_cast<const T*>(k.gate.data),
                       *const up = static_cast<const T*>(k.up.data);
        const bool is_aligned = are_aligned(dgate, dup, dout, gate, up);
        swiglu_backward_kernel<<<num_blocks(k.count), kThreads, 0, stream>>>(dgate, dup, dout, gate, up, k.count,
                                                                             is_aligned);
        return cudaGetLastError();
      },
      k.dgate);
}

cudaError_t launch(const kernels::Rotate& k, LaunchStream& on) {
  static_cast<void>(common_dtype(k.y, k.x));
  const RotaryTurn r = k.turn;
  if (r.batch * r.seq * r.heads * r.head_size == 0) return cudaSuccess;
  return typed(
      [r, x = k.x.data, stream = on.native]<class T>(T* y) {
        const T* const from = static_cast<const T*>(x);
        const bool is_aligned = are_aligned(y, from) && are_aligned(r.cosine, r.sine) && r.rotary % (2 * kEight) == 0 &&
                                r.head_size % kEight == 0;
        rotate_kernel<<<unsigned(r.batch * r.seq), kRowThreads, 0, stream>>>(y, from, r, is_aligned);
        return cudaGetLastError();
      },
      k.y);
}

}  // namespace gpuplan::cuda
