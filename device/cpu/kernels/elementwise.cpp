// Kernels that take every element by itself, or a pair of a head.
#include <cstring>

#include "device/cpu/kernels/numbers.h"

namespace gpuplan::GPUPLAN_CPU_VARIANT {
namespace {

template <class To, class From>
void cast_as(To* to, const From* from, std::int64_t count) {
#pragma omp parallel for simd schedule(static) if (count > kAlone)
  for (std::int64_t i = 0; i < count; ++i) store(to[i], load(from[i]));
}

/// Like with_type, for 8-bit types too.
template <class F>
GPUPLAN_INLINE void with_any_type(Dtype dtype, F f) {
  if (dtype == Dtype::F8E4M3) return f(F8{});
  with_type(dtype, f);
}

/// One head: (a, b) becomes (a cos - b sin, b cos + a sin); `sign` -1 turns back.
template <class T>
GPUPLAN_INLINE void rotate_head(T* y, const T* x, const float* cosine, const float* sine, float sign,
                                std::int64_t half) {
#pragma omp simd
  for (std::int64_t i = 0; i < half; ++i) {
    const float a = load(x[i]), b = load(x[i + half]), s = sign * sine[i];
    store(y[i], a * cosine[i] - b * s);
    store(y[i + half], b * cosine[i] + a * s);
  }
}

/// Calls f with a number of the block's 16-bit type.
template <class F>
GPUPLAN_INLINE void with_half(Dtype dtype, F f) {
  if (dtype == Dtype::BF16) return f(Bf16{});
  if (dtype == Dtype::F16) return f(F16{});
  fail_check("dtype is bf16 or fp16", "a block of a matrix has another dtype", __FILE__, __LINE__);
}

}  // namespace

void widen_block(const MatrixBlock& from, float* to) {
  with_half(from.first.dtype,
            [rows = from.rows, columns = from.columns, stride = from.stride, data = from.first.data, to](auto type) {
              const auto* const first = static_cast<const decltype(type)*>(data);
#pragma omp parallel for schedule(static) if (rows * columns > kAlone)
              for (std::int64_t row = 0; row < rows; ++row) {
                const auto* const in = first + row * stride;
                float* const out = to + row * columns;
#pragma omp simd
                for (std::int64_t i = 0; i < columns; ++i) out[i] = load(in[i]);
              }
            });
}

void narrow_block(const float* from, const MatrixBlock& to) {
  with_half(to.first.dtype,
            [rows = to.rows, columns = to.columns, stride = to.stride, data = to.first.data, from](auto type) {
              auto* const first = static_cast<decltype(type)*>(data);
#pragma omp parallel for schedule(static) if (rows * columns > kAlone)
              for (std::int64_t row = 0; row < rows; ++row) {
                const float* const in = from + row * columns;
                auto* const out = first + row * stride;
#pragma omp simd
                for (std::int64_t i = 0; i < columns; ++i) store(out[i], in[i]);
              }
            });
}

void run(const kernels::Empty&) {}

void run(const kernels::FillUniform& k) {
  const std::int64_t count = k.count;
  const float low = k.low, high = k.high;
  const std::uint64_t seed = k.seed;
  with_any_type(k.to.dtype, [=, to = k.to.data](auto type) {
    auto* const out = static_cast<decltype(type)*>(to);
#pragma omp parallel for schedule(static) if (count > kAlone)
    for (std::int64_t i = 0; i < count; ++i) store(out[i], uniform(seed, std::uint64_t(i), low, high));
  });
}

void run(const kernels::Cast& k) {
  with_any_type(k.to.dtype, [&](auto target) {
    with_any_type(k.from.dtype, [&](auto source) {
      cast_as(static_cast<decltype(target)*>(k.to.data), static_cast<const decltype(source)*>(k.from.data), k.count);
    });
  });
}

void run(const kernels::Zero& k) {
  constexpr std::int64_t kPiece = 256 << 10;  // bytes; a piece costs about 20 us, a team 2 us
  char* const data = static_cast<char*>(k.data);
  const std::int64_t size = k.size.count;
#pragma omp parallel for schedule(static) if (size > kPiece)
  for (std::int64_t begin = 0; begin < size; begin += kPiece)
    std::memset(data + begin, 0, std::size_t(size - begin < kPiece ? size - begin : kPiece));
}

void run(const kernels::Add& k) {
  const std::int64_t count = k.count;
  typed(
      [=](auto* to, auto* left, auto* right) {
#pragma omp parallel for simd schedule(static) if (count > kAlone)
        for (std::int64_t i = 0; i < count; ++i) store(to[i], load(left[i]) + load(right[i]));
      },
      k.y, k.a, k.b);
}

void run(const kernels::AddScaled& k) {
  const std::int64_t count = k.count;
  const float factor = k.factor;
  typed(
      [=](auto* to, auto* from) {
#pragma omp parallel for simd schedule(static) if (count > kAlone)
        for (std::int64_t i = 0; i < count; ++i) store(to[i], load(to[i]) + factor * load(from[i]));
      },
      k.y, k.x);
}

void run(const kernels::SwiGlu& k) {
  const std::int64_t count = k.count;
  with_type(k.out.dtype, [=](auto type) {
    using T = decltype(type);
    T* const out = as<T>(k.out);
    const T *const gate = as<T>(k.gate), *const up = as<T>(k.up);
#pragma omp parallel for simd schedule(static) if (count > kAlone)
    for (std::int64_t i = 0; i < count; ++i) {
      const float x = load(gate[i]);
      store(out[i], x / (1.0F + fast_exp(-x)) * load(up[i]));
    }
  });
}

/// silu(x) = x s with s = sigmoid(x);  silu'(x) = s (1 + x (1 - s)).
void run(const kernels::SwiGluBackward& k) {
  const std::int64_t count = k.count;
  typed(
      [=]<class T>(T* dgate) {
        T* const dup = as<T>(k.dup);
        const T *const dout = as<T>(k.dout), *const gate = as<T>(k.gate), *const up = as<T>(k.up);
#pragma omp parallel for simd schedule(static) if (count > kAlone)
        for (std::int64_t i = 0; i < count; ++i) {
          const float x = load(gate[i]), down = load(dout[i]), factor = load(up[i]), s = 1.0F / (1.0F + fast_exp(-x));
          store(dup[i], down * (x * s));
          store(dgate[i], down * factor * (s * (1.0F + x * (1.0F - s))));
        }
      },
      k.dgate);
}

void run(const kernels::Rotate& k) {
  const RotaryTurn turn = k.turn;
  typed(
      [=]<class T>(T* to) {
        const T* const from = as<T>(k.x);
        const std::int64_t half = turn.rotary / 2, size = turn.head_size, rows = turn.batch * turn.seq;
        const float sign = turn.is_inverse ? -1.0F : 1.0F;
#pragma omp parallel for schedule(static) if (rows * turn.heads * size > kAlone)
        for (std::int64_t r = 0; r < rows; ++r) {
          const std::int64_t angles = r % turn.seq * half;
          const float *const cosine = turn.cosine + angles, *const sine = turn.sine + angles;
          for (std::int64_t begin = r * turn.heads * size; begin < (r + 1) * turn.heads * size; begin += size) {
            rotate_head(to + begin, from + begin, cosine, sine, sign, half);
            for (std::int64_t i = 2 * half; i < size; ++i) to[begin + i] = from[begin + i];
          }
        }
      },
      k.y);
}

}  // namespace gpuplan::GPUPLAN_CPU_VARIANT
