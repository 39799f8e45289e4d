#include "report/estimate_answer.h"

namespace gpuplan {

const StrategyEstimate* strategy_in_focus(const EstimateResult& result) {
  const StrategyEstimate* shown = nullptr;
  for (const StrategyEstimate& e : result.strategies) {
    if (!e.not_applicable.empty()) continue;
    if (result.recommended && e.strategy.name == result.recommended->strategy) return &e;
    if (!shown || e.tiers.needed < shown->tiers.needed) shown = &e;
  }
  return shown;
}

}  // namespace gpuplan
