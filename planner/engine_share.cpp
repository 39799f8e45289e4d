#include "planner/engine_share.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "models/training_method.h"
#include "planner/engine_gpus.h"

namespace gpuplan {

std::string assumed_engine_share(const EstimateRequest& request, const StrategyEstimate& estimate) {
  const EngineChoice& choice = request.rollout.engine;
  const RolloutConvention* const convention = rollout_convention(request.recipe.framework->name);
  if (!generates(request.recipe) || !convention || choice.utilisation || engine_place(request) == EnginePlace::Server)
    return "";
  const GenerationEngine& engine = choice.engine ? **choice.engine : *convention->engine;
  const auto is_generation = [](const PhaseFigures& phase) { return phase.kind == PhaseKind::Generation; };
  const auto phase = std::ranges::find_if(estimate.phases, is_generation);
  if (engine.in_trainer || phase == estimate.phases.end()) return "";
  const double share = convention->utilisation > 0 ? convention->utilisation : engine.utilisation;
  if (share <= 0) return "";
  // what the process has beside tensors is there in every phase
  const MemoryTiers& tiers = estimate.tiers;
  const double free = double((tiers.usable - (phase->tensors + (tiers.process - tiers.tensors))).count);
  const double most = std::floor(100 * (share + free / double(tiers.capacity.count))) / 100;
  double usual = 0;  // no trainer or engine takes more unless it is told to
  for (const RolloutConvention& row : rollout_conventions()) usual = std::max(usual, row.utilisation);
  for (const GenerationEngine& row : generation_engines()) usual = std::max(usual, row.utilisation);
  const std::string assumed = fmt::format("no share of each GPU is stated for {}: {:g}, as {} does", engine.title,
                                          share, request.recipe.framework->name);
  if (most >= usual) return "";
  if (most <= 0) return assumed + "; none fits beside what trains";
  return fmt::format("{}; it fits up to {:.2f}", assumed, most);
}

}  // namespace gpuplan
