#include "sim/remedies.h"

#include <array>
#include <optional>

#include <fmt/format.h>

#include "cluster/fabric.h"
#include "models/ledger.h"
#include "sim/what_if.h"

namespace gpuplan {
namespace {

constexpr double kWorthTrying = 0.1;   // share of the step that an item needs
constexpr double kWorthNaming = 1.05;  // gain
constexpr double kNvlinkTotal = 600;   // GB/s, both directions together: what an A100 has
constexpr double kNicGbit = 400;       // one NDR adapter per GPU
constexpr std::int64_t kMoreAccumulation = 8;

/// A change to what was asked, and how to say it.
struct Change {
  EstimateRequest request;
  Profile profile;
  std::string text;  // "NVLink (600 GB/s)"
};

std::optional<Change> faster_links(const EstimateRequest& r, const Profile& profile) {
  Change change{r, profile, {}};
  const bool crosses = r.cluster.num_nodes() > 1;
  if (!crosses && is_nvlink(r.cluster.fabric)) return {};
  const WhatIf lever = crosses ? WhatIf{"nic", kNicGbit} : WhatIf{"nvlink", kNvlinkTotal};
  const LinkCost before = r.cluster.inter;
  apply_what_if({lever}, change.request.cluster, change.profile);
  if (crosses && change.request.cluster.inter.bandwidth <= before.bandwidth) return {};
  change.text = crosses ? fmt::format("{:g} Gbit/s of network per GPU", kNicGbit)
                        : fmt::format("NVLink ({:g} GB/s)", kNvlinkTotal);
  return change;
}

std::optional<Change> fewer_launches(const EstimateRequest& r, const Profile& profile) {
  if (r.recipe.torch_compile) return {};
  Change change{r, profile, "--compile"};
  change.request.recipe.torch_compile = true;
  return change;
}

std::optional<Change> no_recompute(const EstimateRequest& r, const Profile& profile) {
  Change change{r, profile, "--checkpointing none"};
  change.request.recipe.checkpointing = Checkpointing::None;
  return change;
}

std::optional<Change> more_accumulation(const EstimateRequest& r, const Profile& profile) {
  if (r.recipe.grad_accum >= kMoreAccumulation) return {};
  Change change{r, profile, fmt::format("--grad-accum {}", kMoreAccumulation)};
  change.request.recipe.grad_accum = kMoreAccumulation;
  return change;
}

std::optional<Change> change_for(const CriticalItem& item, const EstimateRequest& r, const Profile& profile) {
  if (item.is_host) return fewer_launches(r, profile);
  switch (item.activity) {
    case Activity::AllGather:
    case Activity::ReduceScatter:
    case Activity::AllReduce:
    case Activity::SendRecv: return faster_links(r, profile);
    case Activity::Recompute: return no_recompute(r, profile);
    case Activity::HostOptimizer: return more_accumulation(r, profile);
    default: return {};
  }
}

struct Tried {
  double tokens_per_second{};
  bool fits{};
};

Tried try_it(const EstimateRequest& r, const FrameworkConvention& framework, const Profile& profile,
             const std::string& strategy) {
  const TrainedModel model = prepare(r.model, r.recipe, framework);
  const SimulatedPlan plan =
      simulate_plan(Job(r, model, framework, profile, make_strategy(strategy, r.cluster, r.options)),
                    {.network = NetworkFidelity::Analytic, .records_spans = false});
  return {plan.tokens_per_second, plan.estimate.fits};
}

}  // namespace

void add_remedies(SimulatedPlan& plan, const EstimateRequest& r, const FrameworkConvention& framework,
                  const Profile& profile) {
  const std::string& strategy = plan.estimate.strategy.name;
  std::optional<Tried> now;
  for (CriticalItem& item : plan.simulation.critical) {
    if (item.share < kWorthTrying) continue;
    const std::optional<Change> change = change_for(item, r, profile);
    if (!change) continue;
    if (!now) now = try_it(r, framework, profile, strategy);
    const Tried then = try_it(change->request, framework, change->profile, strategy);
    const double gain = then.tokens_per_second / now->tokens_per_second;
    const bool fits_no_more = plan.estimate.fits && !then.fits;
    if (gain < kWorthNaming || fits_no_more) continue;
    item.remedy = fmt::format("{} would give {:.1f}x", change->text, gain);
  }
}

}  // namespace gpuplan
