// AdamW on weights and states of the types that they are kept in.
#include "device/cpu/kernels/adamw.h"
#include "device/cpu/kernels/list.h"
#include "device/cpu/kernels/typed.h"

namespace gpuplan::GPUPLAN_CPU_VARIANT {
namespace {

template <class W, class G, class S>
GPUPLAN_INLINE void step_all(W* weight, const G* gradient, S* m, S* v, std::int64_t count, const AdamWStep& settings,
                             float gradient_scale) {
  const AdamWStep step = settings;  // a copy that no store can change
#pragma omp parallel for simd schedule(static) if (count > kAlone)
  for (std::int64_t i = 0; i < count; ++i) {
    float mean = load(m[i]), square = load(v[i]);
    store(weight[i], stepped(load(weight[i]), load(gradient[i]) * gradient_scale, mean, square, step));
    store(m[i], mean);
    store(v[i], square);
  }
}

}  // namespace

void adamw(float* weight, const void* gradient, Dtype gradient_dtype, float* m, float* v, std::int64_t count,
           const AdamWStep& step) {
  with_type(gradient_dtype, [=](auto type) {
    step_all(weight, static_cast<const decltype(type)*>(gradient), m, v, count, step, 1.0F);
  });
}

void adamw_range(const AdamWRange& range, const AdamWStep& step, float gradient_scale) {
  typed(
      [=](auto* weight, auto* gradient, auto* m) {
        step_all(weight, gradient, m, as<std::remove_pointer_t<decltype(m)>>(range.v), range.count, step,
                 gradient_scale);
      },
      range.weight, range.gradient, range.m);
}

}  // namespace gpuplan::GPUPLAN_CPU_VARIANT
