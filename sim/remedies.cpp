#include "sim/remedies.h"

#include <optional>

#include <fmt/format.h>

#include "planner/changes.h"

namespace gpuplan {
namespace {

constexpr double kWorthTrying = 0.1;  // share of the step that an item needs
constexpr double kLeastGain = 1.05;   // gain

/// The change that shortens what an item of the critical path waits for; nothing when it is not useful here.
std::optional<Suggested> remedy_for(const CriticalItem& item, const EstimateRequest& r) {
  if (item.is_host) return suggest(r, Purpose::ShortenStep, "compile");
  switch (item.activity) {
    case Activity::AllGather:
    case Activity::ReduceScatter:
    case Activity::AllReduce:
    case Activity::SendRecv: return suggest(r, Purpose::ShortenStep, r.cluster.num_nodes() > 1 ? "nic" : "nvlink");
    case Activity::Recompute: return suggest(r, Purpose::LeaveOut, "checkpointing");
    case Activity::HostOptimizer: return suggest(r, Purpose::ShortenStep, "grad-accum");
    default: return {};
  }
}

struct Tried {
  double tokens_per_second{};
  bool fits{};
};

Tried simulate_variant(const Variant& variant, const FrameworkConvention& framework, const std::string& strategy) {
  const EstimateRequest& r = variant.request;
  const TrainedModel model = prepare(r.model, r.recipe, framework);
  const SimulatedPlan plan =
      simulate_plan(Job(r, model, framework, variant.profile, make_strategy(strategy, r.cluster, r.options)),
                    {.network = NetworkFidelity::Analytic, .records_spans = false});
  return {plan.tokens_per_second, plan.estimate.fits()};
}

}  // namespace

void add_remedies(SimulatedPlan& plan, const EstimateRequest& r, const FrameworkConvention& framework,
                  const Profile& profile) {
  const std::string& strategy = plan.estimate.strategy.name;
  const Variant as_it_is{r, profile};
  std::optional<Tried> now;
  for (CriticalItem& item : plan.simulation.critical) {
    if (item.share < kWorthTrying) continue;
    const std::optional<Suggested> remedy = remedy_for(item, r);
    if (!remedy) continue;
    if (!now) now = simulate_variant(as_it_is, framework, strategy);
    const Tried then = simulate_variant(changed(as_it_is, {&remedy->setting, 1}), framework, strategy);
    const double gain = then.tokens_per_second / now->tokens_per_second;
    const bool fits_no_more = plan.estimate.fits() && !then.fits;
    if (gain < kLeastGain || fits_no_more) continue;
    item.remedy = fmt::format("{} would give {:.1f}x", describe(remedy->setting), gain);
  }
}

}  // namespace gpuplan
