// Fits what a form leaves over (cluster/profile/local_correction.h).
#pragma once

#include <span>
#include <vector>

#include "cluster/profile/local_correction.h"

namespace gpuplan {

/// `errors`: ln(form / measured) at each of `sizes`; `points` are those to fit. Errors beyond kTukey `scale` take no
/// part: a wrong sample must not spoil its surroundings. Reach and noise are those that predict each point best from
/// the others; where neighbours tell nothing of each other there is no correction. `alignment`: of the metric.
LocalCorrection fit_correction(std::span<const CorrectionSizes> sizes, std::span<const double> errors, double scale,
                               std::span<const std::size_t> points, double alignment);

}  // namespace gpuplan
