// Memory savers: what they cost when they are not needed, and what they save together.
#include <array>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "models/optimizers.h"
#include "planner/advice/rows.h"
#include "planner/advice/what_if.h"

namespace gpuplan {
namespace {

struct Saver {
  const char* name;
  bool (*is_off)(const Recipe& r);
  void (*turn_on)(Recipe& r);
  bool (*is_on)(const Recipe& r);
  void (*turn_off)(Recipe& r);
};

bool is_adam_with_wide_states(const Recipe& r) {
  const OptimizerSpec& optimizer = find_optimizer(r.optimizer);
  return optimizer.num_states >= 2 && !optimizer.is_8bit;
}

bool never(const Recipe&) { return false; }

constexpr std::array kSavers{
    Saver{"checkpointing", [](const Recipe& r) { return r.checkpointing == Checkpointing::None; },
          [](Recipe& r) { r.checkpointing = Checkpointing::Full; },
          [](const Recipe& r) { return r.checkpointing != Checkpointing::None && !r.offload.activations; },
          [](Recipe& r) { r.checkpointing = Checkpointing::None; }},
    Saver{"fused loss", [](const Recipe& r) { return r.loss == LossKernel::Plain; },
          [](Recipe& r) { r.loss = LossKernel::Fused; }, never, nullptr},
    Saver{"8-bit optimizer", [](const Recipe& r) { return r.method == Method::Full && is_adam_with_wide_states(r); },
          [](Recipe& r) { r.optimizer = find_optimizer(r.optimizer).is_paged ? "paged-adamw-8bit" : "adamw-8bit"; },
          never, nullptr},
    Saver{"sdpa attention", [](const Recipe& r) { return r.attention == AttentionKernel::Eager; },
          [](Recipe& r) { r.attention = AttentionKernel::Sdpa; }, never, nullptr},
    Saver{"offload", never, nullptr, [](const Recipe& r) { return r.offload.any(); },
          [](Recipe& r) { r.offload = {}; }},
    Saver{"the quantised base", never, nullptr, [](const Recipe& r) { return r.quant.kind != BaseQuant::None; },
          [](Recipe& r) { r.method = Method::Lora, r.quant.kind = BaseQuant::None; }},
};

// --- savers that are not needed --------------------------------------------------------------------------------------

struct Unneeded {
  const Saver* saver;
  StrategyEstimate without;
};

/// Savers in use without which the plan still fits and is faster (by more than rounding).
std::vector<Unneeded> unneeded_savers(const AdviceCase& c) {
  constexpr double kVisiblyFaster = 0.995;
  std::vector<Unneeded> out;
  if (!c.chosen.fits) return out;
  for (const Saver& saver : kSavers) {
    if (!saver.is_on(c.request.recipe)) continue;
    auto without = with_recipe(c, saver.turn_off);
    if (without && without->fits && without->time.step.value < kVisiblyFaster * c.chosen.time.step.value)
      out.push_back({&saver, *std::move(without)});
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
                        text.empty() ? "W" : " W", saver->name, format_bytes(without.tiers.needed),
                        format_bytes(without.tiers.usable), format_duration(without.time.step),
                        format_duration(c.chosen.time.step), 100 * gain);
  }
  return {{"", text + " A saver costs speed when the batch you want already fits.",
           "both plans estimated; recompute is a second forward pass (arXiv 2104.04473)"}};
}

// --- savers together -------------------------------------------------------------------------------------------------

std::vector<const Saver*> savers_off(const Recipe& r) {
  std::vector<const Saver*> out;
  for (const Saver& saver : kSavers)
    if (saver.is_off(r)) out.push_back(&saver);
  return out;
}

std::optional<StrategyEstimate> with_all(const AdviceCase& c) {
  return with_recipe(c, [](Recipe& r) {
    for (const Saver* saver : savers_off(r)) saver->turn_on(r);
  });
}

bool combined_savers(const AdviceCase& c) {
  constexpr double kWorthwhile = 0.95;
  if (savers_off(c.request.recipe).size() < 2) return false;
  const auto all = with_all(c);
  return all && double(peak_of(*all).count) < kWorthwhile * double(peak_of(c.chosen).count);
}

/// Source: state, activations and logits peak at different moments, so one saver uncovers what the next one takes away;
/// "up to 3 times" together in transformers' perf_train_gpu_one, QLoRA and Liger-Kernel reports. The figures are this
/// plan's.
std::vector<ExplainLine> combined_savers_lines(const AdviceCase& c) {
  std::string names, alone;
  for (const Saver* saver : savers_off(c.request.recipe)) {
    names += fmt::format("{}{}", names.empty() ? "" : " + ", saver->name);
    if (const auto e = with_recipe(c, saver->turn_on))
      alone += fmt::format("{}{} with {}", alone.empty() ? "" : ", ", format_bytes(peak_of(*e)), saver->name);
  }
  const StrategyEstimate all = *with_all(c);
  return {
      {"",
       fmt::format("{}: {} instead of {}, {:.1f} times less ({} alone), while a step takes {} instead of {}.", names,
                   format_bytes(peak_of(all)), format_bytes(peak_of(c.chosen)), peak_of(c.chosen) / peak_of(all), alone,
                   format_duration(all.time.step), format_duration(c.chosen.time.step)),
       "each estimated anew: a saver uncovers the peak that the next one lowers"}};
}

}  // namespace

const AdviceRow kSaversNotNeeded{
    .name = "savers-not-needed",
    .title = "savers not needed",
    .condition = "the plan fits, and it still fits and is faster without checkpointing, offload or the quantised base",
    .applies = [](const AdviceCase& c) { return !unneeded_savers(c).empty(); },
    .lines = savers_not_needed_lines};

const AdviceRow kCombinedSavers{.name = "combined-savers",
                                .title = "savers together",
                                .condition =
                                    "at least two of checkpointing, fused loss, 8-bit optimizer (full fine-tuning) and "
                                    "sdpa attention are not in use, "
                                    "and together they lower the peak by 5 % or more",
                                .applies = combined_savers,
                                .lines = combined_savers_lines};

}  // namespace gpuplan
