// The price of every knob: the recommended plan with one thing changed, its machine and the tokens of a step kept.
#pragma once

#include <vector>

#include "search/plan_row.h"

namespace gpuplan {

/// Each other value that the search tries, the other strategies, half and twice the micro batch, the other methods,
/// and twice and half the GPUs; those that change neither time nor memory visibly are left out.
std::vector<Knob> knobs_of(const Space& space, const PlanRow& plan);

}  // namespace gpuplan
