// What the estimate command has to show: the question, the answer, and which strategy is looked at closely.
#pragma once

#include "planner/estimate.h"
#include "planner/explain.h"
#include "report/text/screen.h"

namespace gpuplan {

struct EstimateAnswer {
  EstimateRequest request;
  EstimateResult result;
  const StrategyEstimate* shown = nullptr;  // of result: recommended or asked for, else nearest to fitting; may be none
  std::vector<ExplainSection> explanation;  // with --explain

  bool fits() const { return result.recommended && !result.recommended->strategy.empty(); }
};

/// The strategy to look at closely: the recommended one; when nothing fits, the one that needs the least. nullptr: none
/// applies.
const StrategyEstimate* strategy_in_focus(const EstimateResult& result);

}  // namespace gpuplan
