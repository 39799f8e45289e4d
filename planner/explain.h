// Every figure explains itself: the terms behind an estimate, with units and sources, as lines for `--explain` and as
// JSON.
#pragma once

#include <string>
#include <vector>

#include "planner/advice.h"

namespace gpuplan {

struct ExplainSection {
  std::string title;
  std::vector<ExplainLine> lines;
};

std::vector<ExplainSection> explain(const EstimateRequest& request, const EstimateResult& result,
                                    const StrategyEstimate& chosen);

}  // namespace gpuplan
