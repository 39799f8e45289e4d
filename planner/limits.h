// How far a recipe can be pushed on the same GPUs: the largest micro batch and the longest context that fit.
#pragma once

#include "planner/strategy_estimate.h"

namespace gpuplan {

/// Fills e.max_micro_batch and e.max_seq_len by doubling and bisection over whole plans; empty where not even 1 fits.
void find_limits(StrategyEstimate& e, const Job& job, StepProgram& program);

}  // namespace gpuplan
