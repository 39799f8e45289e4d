#include "sim/remedies.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "models/training_method.h"
#include "planner/changes.h"

namespace gpuplan {
namespace {

constexpr double kWorthTrying = 0.1;             // share of the step that an item needs
constexpr double kLeastGain = 1.05;              // gain
constexpr std::uint64_t kFewEvents = 1'000'000;  // more are not simulated again and again

std::vector<Suggested> leave_out(const EstimateRequest& r, std::string_view name) {
  std::vector<Suggested> out;
  if (auto found = suggest(r, Purpose::LeaveOut, name)) out.push_back(std::move(*found));
  return out;
}

/// The changes that shorten what an item of the critical path waits for, those that cost nothing first.
std::vector<Suggested> remedies_for(const CriticalItem& item, const EstimateRequest& r) {
  std::vector<std::string_view> names;
  if (item.is_host) {
    names = {"compile", "micro-batch"};
  } else if (is_communication(item.activity)) {
    const bool is_reduction = item.activity == Activity::ReduceScatter || item.activity == Activity::AllReduce;
    if (item.activity == Activity::CopyIn || item.activity == Activity::CopyOut) return leave_out(r, "offload");
    if (is_reduction) names.push_back("overlap-comm");
    names.insert(names.end(), {"nic", "nvlink", "micro-batch"});
    if (is_reduction) names.push_back("grad-accum");
  } else if (item.activity == Activity::Recompute) {
    return leave_out(r, "checkpointing");
  } else if (item.activity == Activity::HostOptimizer) {
    names = {"grad-accum"};
  } else if (item.activity == Activity::Optimizer || item.activity == Activity::Cast) {
    names = {"compile", "grad-accum", "micro-batch"};
  } else {
    names = {"compile", "micro-batch"};
  }
  std::vector<Suggested> out;
  for (const std::string_view name : names)
    if (auto found = suggest(r, Purpose::ShortenStep, name)) out.push_back(std::move(*found));
  return out;
}

struct Tried {
  double tokens_per_second{};
  StrategyEstimate estimate;
};

/// Nothing where the change makes no sense here, or the strategy is not possible with it.
std::optional<Tried> simulate_variant(const Variant& variant, const FrameworkConvention& framework,
                                      const std::string& strategy, NetworkFidelity network) {
  const EstimateRequest& r = variant.request;
  if (!estimate_variant(variant, strategy)) return {};
  const TrainedModel model = prepare(r.model, r.recipe, framework);
  const SimulatedPlan plan =
      simulate_plan(Job(r, model, framework, variant.profile, make_strategy(strategy, r.cluster, r.options)),
                    {.network = network, .most_tasks = 2 * kMostTasks, .records_spans = false});
  return Tried{plan.tokens_per_second, plan.estimate};
}

/// A change that needs more memory must leave a plan that fits well, as `estimate` advises too.
bool may_advise(const StrategyEstimate& now, const StrategyEstimate& then) {
  return then.fits_well() || then.tiers.process <= now.tiers.process;
}

/// Tries the changes of one item after the other until one helps; what those that do not help lack.
class Remedies {
 public:
  Remedies(const Variant& as_it_is, const FrameworkConvention& framework, const std::string& strategy,
           NetworkFidelity network)
      : as_it_is_(as_it_is),
        framework_(framework),
        strategy_(strategy),
        network_(network) {}

  std::string find_for(const CriticalItem& item) {
    for (const Suggested& remedy : remedies_for(item, as_it_is_.request)) {
      const std::string name = describe(remedy.setting);
      if (!now_) now_ = simulate_variant(as_it_is_, framework_, strategy_, network_);
      const auto then = simulate_variant(changed(as_it_is_, {&remedy.setting, 1}), framework_, strategy_, network_);
      if (!now_ || !then) continue;
      const double gain = then->tokens_per_second / now_->tokens_per_second;
      if (gain < kLeastGain)
        too_little_.insert(name);
      else if (!may_advise(now_->estimate, then->estimate))
        too_large_.insert(name);
      else
        return fmt::format("{} would give {:.1f}x", name, gain);
    }
    return {};
  }

  /// One sentence that says why no change was named.
  std::string why_none() const {
    std::vector<std::string> reasons;
    if (!too_little_.empty())
      reasons.push_back(fmt::format("{} would gain less than 5 %", fmt::join(too_little_, ", ")));
    if (!too_large_.empty()) reasons.push_back(fmt::format("{} would not fit well", fmt::join(too_large_, ", ")));
    if (reasons.empty()) return "no change of the plan or machine that gpuplan tries makes this shorter";
    return fmt::format("nothing that was tried helps: {}", fmt::join(reasons, "; "));
  }

 private:
  const Variant& as_it_is_;
  const FrameworkConvention& framework_;
  const std::string& strategy_;
  NetworkFidelity network_;
  std::optional<Tried> now_;
  std::set<std::string> too_little_, too_large_;
};

}  // namespace

namespace {

/// The change that helps a training on answers most while a phase decides: another engine, or more answers at a time,
/// of which each costs less.
std::string remedy_of_phases(const Variant& now, const std::string& strategy) {
  const auto before = estimate_variant(now, strategy);
  if (!before) return {};
  std::vector<Setting> tried{set_to("grad-accum", std::to_string(2 * now.request.recipe.grad_accum))};
  for (const Change& change : changes())
    if (change.tried && change.name == "rollout-engine")
      for (const std::string_view value : change.tried(now.request)) tried.push_back(set_to(change.name, value));
  std::string best;
  double most = kLeastGain;
  for (const Setting& setting : tried) {
    const auto variant = changed_if_possible(now, {&setting, 1});
    const auto then = variant ? estimate_variant(*variant, strategy) : std::nullopt;
    if (!then || !may_advise(*before, *then)) continue;
    const double gain = then->tokens_per_second / before->tokens_per_second;
    if (gain < most) continue;
    most = gain;
    best = fmt::format("{}{} would give {:.1f}x", describe(setting),
                       setting.change->name == "grad-accum" ? ", twice the batch," : "", gain);
  }
  return best.empty() ? "no engine and no batch that was tried gains 5 %: shorter answers or more GPUs would" : best;
}

}  // namespace

void add_remedies(SimulatedPlan& plan, const EstimateRequest& request, const FrameworkConvention& framework,
                  const Profile& profile) {
  const std::string& strategy = plan.estimate.strategy.name;
  EstimateRequest r = request;
  r.strategy = strategy;
  const Variant as_it_is{r, profile};
  const Simulation& s = plan.simulation;
  Remedies remedies(as_it_is, framework, strategy, s.num_events < kFewEvents ? s.network : NetworkFidelity::Analytic);
  bool is_any = false;
  for (CriticalItem& item : plan.simulation.critical) {
    if (item.share < kWorthTrying) continue;
    if (item.is_phase && &item == &plan.simulation.critical.front() && generates(r.recipe))
      item.remedy = remedy_of_phases(as_it_is, strategy);
    if (item.is_phase) continue;
    if (item.is_straggler)
      item.remedy = "a GPU as fast as the others would save this";
    else
      item.remedy = remedies.find_for(item);
    is_any |= !item.remedy.empty();
  }
  if (!is_any && !plan.simulation.critical.empty() && !plan.simulation.critical.front().is_phase)
    plan.simulation.critical.front().remedy = remedies.why_none();
}

}  // namespace gpuplan
