// The variants of AdamW, and Adafactor: state, temporary at the step and peak of each for this model.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "planner/advice/rows.h"
#include "planner/advice/what_if.h"

namespace gpuplan {
namespace {

struct Variant {
  const char *optimizer, *title;
};

/// Sources stand in the table of optimizers (models/optimizers.cpp), from torch/optim/adamw.py, apex fused_adam.py,
/// torchdistx anyprecision_optimizer.py, bitsandbytes optim and transformers Adafactor.
constexpr std::array kVariants{Variant{"adamw-loop", "torch, for-loop"},
                               Variant{"adamw-foreach", "torch, foreach (multi-tensor)"},
                               Variant{"adamw-fused", "torch, fused"},
                               Variant{"adamw-apex", "apex FusedAdam"},
                               Variant{"adamw-bf16-states", "anyprecision, bf16 states"},
                               Variant{"adamw-bf16-kahan", "anyprecision, Kahan"},
                               Variant{"adamw-8bit", "8-bit (bitsandbytes)"},
                               Variant{"paged-adamw", "paged, 32-bit"},
                               Variant{"adafactor", "Adafactor"}};

bool optimizer_variants(const AdviceCase& c) {
  constexpr double kVisible = 0.1;  // of the peak
  const std::string& mine = c.request.recipe.optimizer;
  const bool is_variant =
      mine.find("adamw") != std::string::npos ||
      std::any_of(kVariants.begin(), kVariants.end(), [&](const Variant& v) { return v.optimizer == mine; });
  const Bytes state = trained_state(rank_state(c, c.request.recipe));
  return is_variant && double(state.count) >= kVisible * double(peak_of(c.chosen).count);
}

ExplainLine variant_line(const AdviceCase& c, const Variant& variant) {
  Recipe recipe = c.request.recipe;
  recipe.optimizer = variant.optimizer;
  const StateSizes whole = whole_state(c, recipe), rank = rank_state(c, recipe);
  std::string text = fmt::format("{:.3g} bytes per parameter, {} per rank",
                                 per_parameter(whole.state + whole.paged_state, c.result.model.trainable),
                                 format_bytes(rank.state + rank.paged_state));
  if (const Bytes temporary = rank.step_temporary + rank.step_scratch; temporary.count > 0)
    text += fmt::format(", {} more at the step", format_bytes(temporary));
  if (const auto e = with_recipe(c, [&](Recipe& r) { r = recipe; }))
    text += fmt::format("; peak {}", format_bytes(peak_of(*e)));
  if (recipe.optimizer == c.request.recipe.optimizer) text += " (this plan)";
  return {variant.title, text, std::string(find_optimizer(variant.optimizer).source)};
}

std::vector<ExplainLine> optimizer_variants_lines(const AdviceCase& c) {
  std::vector<ExplainLine> lines;
  for (const Variant& variant : kVariants) lines.push_back(variant_line(c, variant));
  return lines;
}

}  // namespace

const AdviceRow kOptimizerVariants{
    .name = "optimizer-variants",
    .title = "AdamW variants: state, temporary at the step, peak",
    .condition = "the optimizer is a kind of AdamW or Adafactor, and the trained state is at least a tenth of the peak",
    .applies = optimizer_variants,
    .lines = optimizer_variants_lines};

}  // namespace gpuplan
