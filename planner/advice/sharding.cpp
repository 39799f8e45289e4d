// Sharded training: weights gathered once or twice, and what ZeRO's stages are called in FSDP.
#include <fmt/format.h>

#include "base/unit_text.h"
#include "planner/advice.h"

namespace gpuplan {
namespace {

// --- keep weights gathered -------------------------------------------------------------------------------------------

std::optional<StrategyEstimate> other_reshard(const AdviceCase& c) {
  const Strategy& s = c.chosen.strategy;
  if (!traits_of(s.engine).can_keep_gathered || !s.layout.shards_weights || s.mesh.shard_ways() < 2)
    return std::nullopt;
  return estimate_with(c, {{"no-reshard", s.layout.reshards_after_forward ? "on" : "off"}});
}

/// Source: torch fully_shard `reshard_after_forward`, FullyShardedDataParallel SHARD_GRAD_OP: backward finds the
/// weights of forward, so one of two gathers (a third of 3 Psi, arXiv 1910.02054) goes and all gathered weights stay.
std::vector<ExplainLine> keep_gathered_lines(const AdviceCase& c) {
  const StrategyEstimate other = *other_reshard(c);
  const bool keeps_now = !c.chosen.strategy.layout.reshards_after_forward;
  const StrategyEstimate &kept = keeps_now ? c.chosen : other, &again = keeps_now ? other : c.chosen;
  const auto figures = [](const StrategyEstimate& e) {
    return fmt::format("{} per step, {} sent, peak {} ({})", format_duration(e.time.step),
                       format_bytes(e.communication), format_bytes(peak_of(e)),
                       e.fits_well() ? "fits"
                       : e.fits()    ? "fits tightly"
                                     : "does not fit");
  };
  return {
      {"",
       fmt::format("Weights kept gathered from forward to backward (reshard_after_forward=False, SHARD_GRAD_OP): {}. "
                   "Gathered again in backward (FULL_SHARD): {}. This plan {}.",
                   figures(kept), figures(again), keeps_now ? "keeps them" : "gathers again"),
       "torch fully_shard and ShardingStrategy; both plans estimated"}};
}

// --- ZeRO stages and FSDP strategies ---------------------------------------------------------------------------------

/// The same recipe under another strategy, taken from the answer where it is there.
std::optional<StrategyEstimate> under_strategy(const AdviceCase& c, std::string_view name) {
  for (const StrategyEstimate& e : c.result.strategies)
    if (e.strategy.name == name) return e.not_applicable.empty() ? std::optional(e) : std::nullopt;
  return estimate_with(c, {{"strategy", std::string(name)}});
}

std::vector<ExplainLine> zero_or_fsdp_lines(const AdviceCase& c) {
  std::vector<ExplainLine> lines;
  for (const Counterparts& row : counterparts()) {
    std::string text;
    for (const std::string_view name : row.strategies) {
      if (name.empty()) continue;
      const auto e = under_strategy(c, name);
      text += fmt::format("{}{} {}", text.empty() ? "" : "; ", name, e ? peak_and_step(*e) : "is not applicable");
    }
    lines.push_back(
        {fmt::format("{} = {}", row.deepspeed, row.fsdp), text,
         "accelerate concept_guides/fsdp_and_deepspeed; SHARD_GRAD_OP also shards the weights between steps, "
         "which ZeRO-2 keeps whole; FSDP2 calls the two reshard_after_forward=False and True"});
  }
  return lines;
}

}  // namespace

const AdviceRow kKeepGathered{.name = "keep-gathered",
                              .title = "gather once or twice",
                              .condition = "FSDP shards the weights over at least two ranks",
                              .applies = [](const AdviceCase& c) { return other_reshard(c).has_value(); },
                              .lines = keep_gathered_lines};

const AdviceRow kZeroOrFsdp{
    .name = "zero-or-fsdp",
    .title = "DeepSpeed stage and FSDP strategy (peak of tensors, time of a step)",
    .condition = "the strategy shards optimizer states, gradients or weights over at least two ranks",
    .applies =
        [](const AdviceCase& c) {
          return c.chosen.strategy.layout.shards_optimizer && c.chosen.strategy.mesh.shard_ways() > 1;
        },
    .lines = zero_or_fsdp_lines};

}  // namespace gpuplan
