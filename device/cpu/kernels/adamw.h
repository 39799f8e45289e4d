// AdamW on one parameter.
#pragma once

#include <cmath>

#include "device/adamw_step.h"
#include "device/narrow_floats.h"

namespace gpuplan {
namespace {

/// The weight after the step, with m and v of after it.
GPUPLAN_INLINE float stepped(float weight, float gradient, float& m, float& v, const AdamWStep& step) {
  m = step.beta1 * m + (1.0F - step.beta1) * gradient;
  v = step.beta2 * v + (1.0F - step.beta2) * gradient * gradient;
  return weight * step.decay - step.rate * m / (sqrtf(v) * step.root + step.epsilon);
}

}  // namespace
}  // namespace gpuplan
