// Kernels that take every element by itself.
#include "device/cpu/kernels/list.h"
#include "device/cpu/kernels/number.h"
#include "device/uniform.h"

namespace gpuplan::GPUPLAN_CPU_VARIANT {
namespace {

template <class To, class From>
void cast_as(To* to, const From* from, std::int64_t count) {
#pragma omp parallel for simd schedule(static) if (count > kAlone)
  for (std::int64_t i = 0; i < count; ++i) store(to[i], load(from[i]));
}

/// As with_type, with 8 bits too.
template <class F>
GPUPLAN_INLINE void with_any_type(Dtype dtype, F f) {
  if (dtype == Dtype::F8E4M3) return f(F8{});
  with_type(dtype, f);
}

}  // namespace

void fill_uniform(void* to, std::int64_t count, Dtype dtype, float low, float high, std::uint64_t seed) {
  with_any_type(dtype, [=](auto type) {
    auto* const out = static_cast<decltype(type)*>(to);
#pragma omp parallel for schedule(static) if (count > kAlone)
    for (std::int64_t i = 0; i < count; ++i) store(out[i], uniform(seed, std::uint64_t(i), low, high));
  });
}

void cast(void* to, Dtype to_dtype, const void* from, Dtype from_dtype, std::int64_t count) {
  with_any_type(to_dtype, [=](auto target) {
    with_any_type(from_dtype, [=](auto source) {
      cast_as(static_cast<decltype(target)*>(to), static_cast<const decltype(source)*>(from), count);
    });
  });
}

}  // namespace gpuplan::GPUPLAN_CPU_VARIANT
