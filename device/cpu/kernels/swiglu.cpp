// SwiGLU and its gradients.
#include "device/cpu/kernels/list.h"
#include "device/cpu/kernels/typed.h"

namespace gpuplan::GPUPLAN_CPU_VARIANT {

void swiglu(void* out, const void* gate, const void* up, std::int64_t count, Dtype dtype) {
  with_type(dtype, [=](auto type) {
    using T = decltype(type);
    auto* const result = static_cast<T*>(out);
    const auto* const g = static_cast<const T*>(gate);
    const auto* const u = static_cast<const T*>(up);
#pragma omp parallel for simd schedule(static) if (count > kAlone)
    for (std::int64_t i = 0; i < count; ++i) {
      const float x = load(g[i]);
      store(result[i], x / (1.0F + fast_exp(-x)) * load(u[i]));
    }
  });
}

/// silu(x) = x s with s = sigmoid(x);  silu'(x) = s (1 + x (1 - s)).
void swiglu_backward(Numbers dgate, Numbers dup, ConstNumbers dout, ConstNumbers gate, ConstNumbers up,
                     std::int64_t count) {
  typed(
      [=]<class T>(T* dg) {
        T* const du = as<T>(dup);
        const T *const d = as<T>(dout), *const g = as<T>(gate), *const u = as<T>(up);
#pragma omp parallel for simd schedule(static) if (count > kAlone)
        for (std::int64_t i = 0; i < count; ++i) {
          const float x = load(g[i]), down = load(d[i]), factor = load(u[i]), s = 1.0F / (1.0F + fast_exp(-x));
          store(du[i], down * (x * s));
          store(dg[i], down * factor * (s * (1.0F + x * (1.0F - s))));
        }
      },
      dgate);
}

}  // namespace gpuplan::GPUPLAN_CPU_VARIANT
