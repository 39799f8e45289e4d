// Counts the GPUs of the same kind that train without offload, where a plan rests on it and is slow for it.
#pragma once

#include <optional>

#include "planner/strategy_estimate.h"

namespace gpuplan {

/// `asked`: the question as it was given; `shown`: its answer, which offloads what nobody asked to offload. The
/// smallest of twice, four and eight times the GPUs on which a plan without offload fits well and costs at most half as
/// much, with all flags that lead to it. Nothing where there is none, and for machines of one's own description.
std::optional<BetterWay> more_gpus(const EstimateRequest& asked, const StrategyEstimate& shown);

}  // namespace gpuplan
