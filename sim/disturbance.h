// What makes ranks differ: slow ones, and noise that the seed decides. No libm: the same seed gives the same bytes
// anywhere.
#pragma once

#include <cstdint>

#include "sim/simulation.h"

namespace gpuplan {

/// Factor on the compute time of a rank.
double straggler_factor(const SimOptions& options, std::int64_t rank);

/// Factor on the time of one task: mean 1, standard deviation `options.jitter`, at least 0.1.
double jitter_factor(const SimOptions& options, std::int64_t rank, std::uint32_t task);

}  // namespace gpuplan
