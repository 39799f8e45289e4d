#include "search/more_gpus.h"

#include <fmt/format.h>

#include "cluster/gpu_list.h"
#include "models/training_method.h"
#include "planner/engine_gpus.h"
#include "planner/estimate.h"
#include "search/frontier.h"

namespace gpuplan {
namespace {

/// "--gpus 16xH100" for "8xH100"; empty where the machine is not one kind of card that a flag names.
std::string flag_for(const ClusterSpec& cluster, std::int64_t count) {
  if (!cluster.file.empty() || cluster.is_mixed() || cluster.host_cores > 0 || !names_gpus(cluster.name)) return {};
  const std::string name = split_gpu_list(cluster.name).front().name;
  return fmt::format("--gpus {}x{}", count, name);
}

bool offloads_states(const Recipe& recipe) {
  return recipe.offload.optimizer != OffloadTarget::None || recipe.offload.params != OffloadTarget::None;
}

}  // namespace

std::optional<BetterWay> more_gpus(const EstimateRequest& asked, const StrategyEstimate& shown) {
  constexpr std::int64_t kMost = 8;
  if (!asked.not_given.contains("offload") || generates(asked.recipe) || shown.tokens_per_second <= 0) return {};
  const std::int64_t now = asked.cluster.num_gpus();
  const double per_gpu = shown.tokens_per_second / double(now);
  for (std::int64_t times = 2; times <= kMost; times *= 2) {
    const std::string flag = flag_for(asked.cluster, times * now);
    if (flag.empty()) return {};
    EstimateRequest more = asked;
    divide_gpus(more, times * now);
    more.not_given.rows.erase("offload");
    const EstimateResult result = estimate(more, InFull::InFocus);
    const StrategyEstimate* const plan = strategy_in_focus(result);
    if (!plan || plan->fit != Fit::Yes || offloads_states(result.request.recipe)) continue;
    if (plan->tokens_per_second / double(times * now) < kWorthOffload * per_gpu) return {};
    BetterWay way{.flags = {flag}, .plan = *plan};
    if (asked.strategy == "auto") way.flags.push_back("--strategy " + plan->strategy.name);
    way.flags.insert(way.flags.end(), result.chosen.flags.begin(), result.chosen.flags.end());
    return way;
  }
  return {};
}

}  // namespace gpuplan
