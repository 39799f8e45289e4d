// Memory savers: what they cost when they are not needed, what they save together, and the variants of AdamW.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "models/optimizers.h"
#include "planner/advice.h"
#include "planner/changes.h"

namespace gpuplan {
namespace {

// --- savers that are not needed --------------------------------------------------------------------------------------

struct Unneeded {
  std::string_view saver;
  StrategyEstimate without;
};

std::optional<StrategyEstimate> with_saver(const AdviceCase& c, const Suggested& one) {
  return estimate_with(c, {{one.setting.change->name, one.setting.value}});
}

/// Savers in use without which the plan still fits and is faster (by more than rounding).
std::vector<Unneeded> unneeded_savers(const AdviceCase& c) {
  constexpr double kVisiblyFaster = 0.995;
  std::vector<Unneeded> out;
  if (!c.chosen.fits()) return out;
  for (const Suggested& saver : suggest(c.request, Purpose::LeaveOut)) {
    auto without = with_saver(c, saver);
    if (without && without->fits_well() && without->time.step.value < kVisiblyFaster * c.chosen.time.step.value)
      out.push_back({saver.why->title, *std::move(without)});
  }
  return out;
}

/// Source: recompute is a second forward pass, 8 instead of 6 FLOPs per parameter and token (arXiv 2104.04473); a base
/// in 4 bit is dequantised in every pass (bitsandbytes autograd/_functions.py); offload moves state over PCIe
/// (DeepSpeed ZeRO-Offload, arXiv 2101.06840). The figures are this plan's.
std::vector<ExplainLine> savers_not_needed_lines(const AdviceCase& c) {
  std::string text;
  for (const auto& [saver, without] : unneeded_savers(c)) {
    const double gain = 1 - without.time.step.value / c.chosen.time.step.value;
    text += fmt::format("{}ithout {} it fits too ({} of {}), and a step takes {} instead of {} ({:.0f} % less).",
                        text.empty() ? "W" : " W", saver, format_bytes(without.tiers.needed),
                        format_bytes(without.tiers.usable), format_duration(without.time.step),
                        format_duration(c.chosen.time.step), 100 * gain);
  }
  return {{"", text + " A saver costs speed when the batch you want already fits.",
           "both plans estimated; recompute is a second forward pass (arXiv 2104.04473)"}};
}

// --- savers together -------------------------------------------------------------------------------------------------

/// Savers that change neither what is trained nor the batch nor where it runs.
std::vector<Suggested> unused_savers(const EstimateRequest& r) {
  std::vector<Suggested> out;
  for (const char* name : {"checkpointing", "loss", "optimizer", "attention"})
    if (auto saver = suggest(r, Purpose::SaveMemory, name)) out.push_back(*std::move(saver));
  return out;
}

/// Each saver leaves the value of the next one as it is, so their order does not matter.
std::optional<StrategyEstimate> with_all(const AdviceCase& c) {
  Variant variant{c.request, c.result.profile};
  for (const Suggested& saver : unused_savers(c.request)) variant = changed(std::move(variant), {&saver.setting, 1});
  return estimate_variant(variant, c.chosen.strategy.name);
}

bool combined_savers(const AdviceCase& c) {
  constexpr double kWorthwhile = 0.95;
  if (unused_savers(c.request).size() < 2) return false;
  const auto all = with_all(c);
  return all && double(peak_of(*all).count) < kWorthwhile * double(peak_of(c.chosen).count);
}

/// Source: state, activations and logits peak at different moments, so one saver uncovers what the next one takes away;
/// "up to 3 times" together in transformers' perf_train_gpu_one, QLoRA and Liger-Kernel reports. The figures are this
/// plan's.
std::vector<ExplainLine> combined_savers_lines(const AdviceCase& c) {
  std::string names, alone;
  for (const Suggested& saver : unused_savers(c.request)) {
    names += fmt::format("{}{}", names.empty() ? "" : " + ", saver.why->title);
    if (const auto e = with_saver(c, saver))
      alone += fmt::format("{}{} with {}", alone.empty() ? "" : ", ", format_bytes(peak_of(*e)), saver.why->title);
  }
  const StrategyEstimate all = *with_all(c);
  return {
      {"",
       fmt::format("{}: {} instead of {}, {:.1f} times less ({} alone), while a step takes {} instead of {}.", names,
                   format_bytes(peak_of(all)), format_bytes(peak_of(c.chosen)), peak_of(c.chosen) / peak_of(all), alone,
                   format_duration(all.time.step), format_duration(c.chosen.time.step)),
       "each estimated anew: a saver uncovers the peak that the next one lowers"}};
}

// --- variants of AdamW -----------------------------------------------------------------------------------------------

struct OptimizerVariant {
  const char *optimizer, *title;
};

/// Sources stand in the table of optimizers (models/optimizers.cpp), from torch/optim/adamw.py, apex fused_adam.py,
/// torchdistx anyprecision_optimizer.py, bitsandbytes optim and transformers Adafactor.
constexpr std::array kOptimizers{OptimizerVariant{"adamw-loop", "torch, for-loop"},
                                 OptimizerVariant{"adamw-foreach", "torch, foreach (multi-tensor)"},
                                 OptimizerVariant{"adamw-fused", "torch, fused"},
                                 OptimizerVariant{"adamw-apex", "apex FusedAdam"},
                                 OptimizerVariant{"adamw-bf16-states", "anyprecision, bf16 states"},
                                 OptimizerVariant{"adamw-bf16-kahan", "anyprecision, Kahan"},
                                 OptimizerVariant{"adamw-8bit", "8-bit (bitsandbytes)"},
                                 OptimizerVariant{"paged-adamw", "paged, 32-bit"},
                                 OptimizerVariant{"adafactor", "Adafactor"}};

bool optimizer_variants(const AdviceCase& c) {
  constexpr double kVisible = 0.1;  // of the peak
  const std::string_view mine = c.request.recipe.optimizer->name;
  const bool is_variant =
      mine.find("adamw") != mine.npos || std::any_of(kOptimizers.begin(), kOptimizers.end(),
                                                     [&](const OptimizerVariant& v) { return v.optimizer == mine; });
  const Bytes state = trained_state(rank_state(c, c.request.recipe));
  return is_variant && double(state.count) >= kVisible * double(peak_of(c.chosen).count);
}

ExplainLine variant_line(const AdviceCase& c, const OptimizerVariant& variant) {
  const NamedSetting setting{"optimizer", variant.optimizer};
  const Recipe recipe = recipe_with(c, {setting});
  const StateSizes whole = whole_state(c, recipe), rank = rank_state(c, recipe);
  std::string text = fmt::format("{:.3g} bytes per parameter, {} per rank",
                                 per_parameter(whole.state + whole.paged_state, c.result.model.trainable),
                                 format_bytes(rank.state + rank.paged_state));
  if (const auto e = estimate_with(c, {setting})) {
    const Bytes temporary = e->peak.step_temporaries;
    if (temporary.count > 0) text += fmt::format(", {} more at the step", format_bytes(temporary));
    text += fmt::format("; peak {}", format_bytes(peak_of(*e)));
  }
  if (recipe.optimizer == c.request.recipe.optimizer) text += " (this plan)";
  return {variant.title, text, std::string(find_optimizer(variant.optimizer).source)};
}

std::vector<ExplainLine> optimizer_variants_lines(const AdviceCase& c) {
  std::vector<ExplainLine> lines;
  for (const OptimizerVariant& variant : kOptimizers) lines.push_back(variant_line(c, variant));
  return lines;
}

}  // namespace

const AdviceRow kSaversNotNeeded{
    .name = "savers-not-needed",
    .title = "savers not needed",
    .condition =
        "the plan fits, and it still fits well and is faster without checkpointing, offload or the quantised base",
    .applies = [](const AdviceCase& c) { return !unneeded_savers(c).empty(); },
    .lines = savers_not_needed_lines};

const AdviceRow kCombinedSavers{
    .name = "combined-savers",
    .title = "savers together",
    .condition =
        "at least two of checkpointing, fused loss, 8-bit optimizer and sdpa attention are not "
        "in use, "
        "and together they lower the peak by 5 % or more",
    .applies = combined_savers,
    .lines = combined_savers_lines};

const AdviceRow kOptimizerVariants{
    .name = "optimizer-variants",
    .title = "AdamW variants: state, temporary at the step, peak",
    .condition = "the optimizer is a kind of AdamW or Adafactor, and the trained state is at least a tenth of the peak",
    .applies = optimizer_variants,
    .lines = optimizer_variants_lines};

}  // namespace gpuplan
