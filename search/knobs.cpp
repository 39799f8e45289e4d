#include "search/neighbours.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "planner/engine_gpus.h"
#include "search/row_text.h"

namespace gpuplan {
namespace {

constexpr double kVisibleTime = 0.02, kVisibleMemory = 0.01;

/// Changes one after the other, each with its words.
class Knobs {
 public:
  Knobs(const Space& space, const PlanRow& row)
      : space_(space),
        row_(row),
        now_{row.request, space.question.machines[row.plan.machine].profile} {}

  std::vector<Knob> all() {
    for (const Change& change : changes())
      if (change.tried && !space_.question.pinned.contains(std::string(change.name)))
        for (const std::string_view value : change.tried(row_.request)) try_settings({set_to(change.name, value)});
    try_methods();
    try_batches();
    for (const std::string_view name : strategy_names())
      if (name != row_.request.strategy &&
          !idles_gpus(space_.question, make_strategy(name, row_.request.cluster, row_.request.options),
                      row_.request.cluster))
        try_settings({set_to("strategy", name)});
    const std::int64_t in_all = num_gpus_in_all(row_.request);
    for (const std::int64_t count : {in_all / 2, in_all * 2}) try_num_gpus(count);
    return std::move(knobs_);
  }

 private:
  void try_methods() {
    const Recipe& recipe = row_.request.recipe;
    const std::string rank = fmt::format("r={}", recipe.lora.rank);
    if (recipe.method != Method::Full) try_settings({set_to("full", "on")});
    if (recipe.method != Method::Lora) try_adapters(set_to("lora", rank));
    if (recipe.method != Method::Qlora) try_adapters(set_to("qlora", rank));
  }

  /// Adapters have little to step: with them goes the trainer's own optimizer, where the user asked for no other.
  void try_adapters(Setting method) {
    const Recipe& recipe = row_.request.recipe;
    std::vector<Setting> settings{std::move(method)};
    const std::string& usual = recipe.framework->default_optimizer;
    if (recipe.optimizer != usual && !space_.question.pinned.contains("optimizer"))
      settings.push_back(set_to("optimizer", usual));
    try_settings(settings);
  }

  void try_batches() {
    const Batch now = row_.plan.batch;
    const auto with = [&](std::int64_t micro, std::int64_t accum) {
      try_settings({set_to("micro-batch", std::to_string(micro)), set_to("grad-accum", std::to_string(accum))});
    };
    if (now.micro % 2 == 0) with(now.micro / 2, now.accum * 2);
    if (now.accum % 2 == 0) with(now.micro * 2, now.accum / 2);
  }

  /// The global batch stays as near as it can.
  void try_num_gpus(std::int64_t count) {
    if (count < 1 || row_.request.cluster.is_mixed()) return;
    const double factor = double(num_gpus_in_all(row_.request)) / double(count);
    const auto accum = std::max<std::int64_t>(1, std::llround(double(row_.plan.batch.accum) * factor));
    std::vector<Setting> settings{set_to("num-gpus", std::to_string(count))};
    const bool is_alone = count == 1 && !row_.request.recipe.offload.any();
    const bool was_alone = row_.request.strategy == simplest_strategy(1);
    if (is_alone || was_alone) settings.push_back(set_to("strategy", simplest_strategy(was_alone ? 2 : 1)));
    const std::string with = is_alone || was_alone ? " with " + settings.back().value : "";
    settings.push_back(set_to("grad-accum", std::to_string(accum)));  // a strategy may divide passes among its ranks
    try_settings(settings, fmt::format("{} of these GPUs{}", count, with));
  }

  std::string words_of(const std::vector<Setting>& settings) const {
    std::string text;
    for (const Setting& s : settings) text += (text.empty() ? "" : " ") + describe(s);
    return text;
  }

  void try_settings(const std::vector<Setting>& settings, std::string words = {}) {
    Knob knob{.change = words.empty() ? words_of(settings) : std::move(words),
              .not_possible = {},
              .time_ratio = 1,
              .memory = {},
              .cost_usd = {},
              .fit = {}};
    const auto variant = changed_if_possible(now_, settings);
    const auto after = variant ? estimate_variant(*variant, variant->request.strategy) : std::nullopt;
    if (!after) return;
    const StrategyEstimate& before = row_.estimate();
    knob.fit = after->fit;
    knob.time_ratio = (row_.slowdown * *after->total + row_.overhead) / (row_.slowdown * *before.total + row_.overhead);
    knob.memory = after->tiers.process - before.tiers.process;
    if (after->cost_usd)
      knob.cost_usd = row_.slowdown * *after->cost_usd +
                      row_.overhead_usd() * double(after->num_gpus_used) / double(before.num_gpus_used);
    const double memory = std::abs(knob.memory / before.tiers.usable);
    if (std::abs(knob.time_ratio - 1) >= kVisibleTime || memory >= kVisibleMemory) knobs_.push_back(std::move(knob));
  }

  const Space& space_;
  const PlanRow& row_;
  Variant now_;
  std::vector<Knob> knobs_;
};

}  // namespace

std::vector<Knob> knobs_of(const Space& space, const PlanRow& plan) { return Knobs(space, plan).all(); }

}  // namespace gpuplan
