// Rotary position embedding.
#include "device/cpu/kernels/list.h"
#include "device/cpu/kernels/typed.h"

namespace gpuplan::GPUPLAN_CPU_VARIANT {
namespace {

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

}  // namespace

void rotate(Numbers y, ConstNumbers x, const RotaryTurn& rotation) {
  typed(
      [=]<class T>(T* to) {
        const T* const from = as<T>(x);
        const std::int64_t half = rotation.rotary / 2, size = rotation.head_size, rows = rotation.batch * rotation.seq;
        const float sign = rotation.is_inverse ? -1.0F : 1.0F;
#pragma omp parallel for schedule(static) if (rows * rotation.heads * size > kAlone)
        for (std::int64_t r = 0; r < rows; ++r) {
          const float *const cosine = rotation.cosine + r % rotation.seq * half, *const sine = rotation.sine +
                                                                                               r % rotation.seq * half;
          for (std::int64_t begin = r * rotation.heads * size; begin < (r + 1) * rotation.heads * size; begin += size) {
            rotate_head(to + begin, from + begin, cosine, sine, sign, half);
            for (std::int64_t i = 2 * half; i < size; ++i) to[begin + i] = from[begin + i];
          }
        }
      },
      y);
}

}  // namespace gpuplan::GPUPLAN_CPU_VARIANT
