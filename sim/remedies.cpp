#include "sim/remedies.h"

#include <optional>
#include <vector>

#include <fmt/format.h>

#include "planner/changes.h"

namespace gpuplan {
namespace {

constexpr double kWorthTrying = 0.1;  // share of the step that an item needs
constexpr double kLeastGain = 1.05;   // gain

/// The changes that shorten what an item of the critical path waits for, those that cost nothing first.
std::vector<Suggested> remedies_for(const CriticalItem& item, const EstimateRequest& r) {
  std::vector<Suggested> out;
  const auto add = [&](Purpose purpose, std::string_view name) {
    if (auto found = suggest(r, purpose, name)) out.push_back(std::move(*found));
  };
  if (item.is_host) {
    add(Purpose::ShortenStep, "compile");
    return out;
  }
  switch (item.activity) {
    case Activity::ReduceScatter:
    case Activity::AllReduce: add(Purpose::ShortenStep, "overlap-comm"); [[fallthrough]];
    case Activity::AllGather:
    case Activity::SendRecv: add(Purpose::ShortenStep, r.cluster.num_nodes() > 1 ? "nic" : "nvlink"); break;
    case Activity::Recompute: add(Purpose::LeaveOut, "checkpointing"); break;
    case Activity::HostOptimizer: add(Purpose::ShortenStep, "grad-accum"); break;
    default: break;
  }
  return out;
}

struct Tried {
  double tokens_per_second{};
  StrategyEstimate estimate;
};

Tried simulate_variant(const Variant& variant, const FrameworkConvention& framework, const std::string& strategy) {
  const EstimateRequest& r = variant.request;
  const TrainedModel model = prepare(r.model, r.recipe, framework);
  const SimulatedPlan plan =
      simulate_plan(Job(r, model, framework, variant.profile, make_strategy(strategy, r.cluster, r.options)),
                    {.network = NetworkFidelity::Analytic, .records_spans = false});
  return {plan.tokens_per_second, plan.estimate};
}

/// A change that needs more memory must leave a plan that fits well, as `estimate` advises too.
bool may_advise(const StrategyEstimate& now, const StrategyEstimate& then) {
  return then.fits_well() || then.tiers.process <= now.tiers.process;
}

}  // namespace

void add_remedies(SimulatedPlan& plan, const EstimateRequest& request, const FrameworkConvention& framework,
                  const Profile& profile) {
  const std::string& strategy = plan.estimate.strategy.name;
  EstimateRequest r = request;
  r.strategy = strategy;
  const Variant as_it_is{r, profile};
  std::optional<Tried> now;
  for (CriticalItem& item : plan.simulation.critical) {
    if (item.share < kWorthTrying) continue;
    for (const Suggested& remedy : remedies_for(item, r)) {
      if (!now) now = simulate_variant(as_it_is, framework, strategy);
      const Tried then = simulate_variant(changed(as_it_is, {&remedy.setting, 1}), framework, strategy);
      const double gain = then.tokens_per_second / now->tokens_per_second;
      if (gain < kLeastGain || !may_advise(now->estimate, then.estimate)) continue;
      item.remedy = fmt::format("{} would give {:.1f}x", describe(remedy.setting), gain);
      break;
    }
  }
}

}  // namespace gpuplan
