// What fewer bits do and do not save: a quantised base without adapters, mixed precision, weights in bf16.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/unit_text.h"
#include "models/quantisation.h"
#include "models/recipe_names.h"
#include "planner/advice.h"

namespace gpuplan {
namespace {

bool is_full(const AdviceCase& c) { return c.request.recipe.method == Method::Full; }

double state_per_parameter(const AdviceCase& c, const Recipe& recipe) {
  return per_parameter(trained_state(whole_state(c, recipe)), c.result.model.trainable);
}

// --- quantising without adapters -------------------------------------------------------------------------------------

NamedSetting as_qlora(const AdviceCase& c) { return {"qlora", fmt::format("r={}", c.request.recipe.lora.rank)}; }

/// Gives what the linears of the blocks would take less in NF4 than in 16 bit; nothing when no tensor can be quantised.
std::optional<Bytes> saved_by_nf4(const AdviceCase& c) {
  const Recipe qlora = recipe_with(c, {as_qlora(c)});
  const auto prepared = try_prepare(c.request.model, qlora, c.result.framework);
  const auto* const model = std::get_if<TrainedModel>(&prepared);
  if (!model) return std::nullopt;
  Bytes saved;
  model->each_state([&](const StateList& list, std::int64_t times) {
    for (const StateTensor& t : list)
      if (t.kind == StateKind::Quantised)
        saved += times * (bytes_of(t.elements(), Dtype::BF16) - quantised_bytes(t.elements(), t.rows, qlora.quant));
  });
  return saved;
}

/// Source: 16 bytes per parameter = 2 weights + 2 gradients + 4 fp32 copies + 8 Adam states (arXiv 1910.02054); in 4
/// bit the weights take 0.5 of it (arXiv 2305.14314), so 14.5 remain: an optimizer cannot step 4-bit weights.
std::vector<ExplainLine> quantise_alone_lines(const AdviceCase& c) {
  constexpr double kWeight16 = 2, kWeight4 = 0.5;  // bytes per parameter, scales not counted
  const Bytes whole = trained_state(whole_state(c, c.request.recipe));
  const double per = per_parameter(whole, c.result.model.trainable);
  std::string text = fmt::format(
      "4-bit weights without adapters would at best turn {:.3g} bytes per parameter into {:.3g}, as gradients, "
      "fp32 copies and optimizer states stay",
      per, per - (kWeight16 - kWeight4));
  if (const auto saved = saved_by_nf4(c))
    text += fmt::format(": here {} into {} before sharding ({:.0f} % less)", format_bytes(whole),
                        format_bytes(whole - *saved), 100 * (*saved / whole));
  text += ".";
  if (const auto qlora = estimate_with(c, {as_qlora(c)}))
    text += fmt::format(" Frozen under adapters they pay: --qlora r={} peaks at {} instead of {}.",
                        c.request.recipe.lora.rank, format_bytes(peak_of(*qlora)), format_bytes(peak_of(c.chosen)));
  return {{"", text, "arXiv 1910.02054: 2 + 2 + 4 + 8 bytes; arXiv 2305.14314: 0.5 instead of the first 2"}};
}

// --- mixed precision -------------------------------------------------------------------------------------------------

bool is_mixed(Precision p) { return p == Precision::Bf16Mixed || p == Precision::Fp16Mixed; }

NamedSetting in(Precision precision) { return {"precision", std::string(to_string(precision))}; }

/// The same with few tokens in a pass, while the gradients of the pass before exist.
constexpr std::int64_t kFewTokens = 128, kPasses = 2;
std::optional<StrategyEstimate> of_few_tokens(const AdviceCase& c, Precision precision) {
  const Recipe& r = c.request.recipe;
  return estimate_with(c, {in(precision),
                           {"micro-batch", "1"},
                           {"seq-len", std::to_string(std::min(kFewTokens, r.seq_len))},
                           {"grad-accum", std::to_string(std::max(kPasses, r.grad_accum))}});
}

/// Source: torch.autocast keeps parameters in fp32 and caches their 16-bit casts; ZeRO and FSDP keep fp32 masters or
/// shards (arXiv 1710.03740, 1910.02054). So 16 bytes per parameter either way, plus 2 for the casts that live until
/// backward: "the model is now present on the GPU in both 16-bit and 32-bit precision" (transformers
/// perf_train_gpu_one).
std::vector<ExplainLine> mixed_precision_lines(const AdviceCase& c) {
  const Recipe& mixed = c.request.recipe;
  const Recipe fp32 = recipe_with(c, {in(Precision::Fp32)});
  const auto plain = estimate_with(c, {in(Precision::Fp32)});
  std::string text = fmt::format(
      "It saves activations, not state: {:.3g} bytes per parameter before sharding, {:.3g} in fp32; "
      "{} and {} per rank.",
      state_per_parameter(c, mixed), state_per_parameter(c, fp32), format_bytes(trained_state(rank_state(c, mixed))),
      format_bytes(trained_state(rank_state(c, fp32))));
  if (!plain) return {{"", text, ""}};
  text += fmt::format(" The peak is {}, in fp32 {}.", format_bytes(peak_of(c.chosen)), format_bytes(peak_of(*plain)));
  const auto small = of_few_tokens(c, mixed.precision), small_plain = of_few_tokens(c, Precision::Fp32);
  if (peak_of(c.chosen) > peak_of(*plain))
    text += " At this batch it raises memory: the 16-bit copies of the weights are more than the activations it saves.";
  else if (small && small_plain && peak_of(*small) > peak_of(*small_plain))
    text += fmt::format(
        " Accumulating passes of {} tokens, it would raise it from {} to {}, by 16-bit copies of the weights.",
        std::min(kFewTokens, mixed.seq_len), format_bytes(peak_of(*small_plain)), format_bytes(peak_of(*small)));
  return {{"", text, "torch.autocast casts weights for use and keeps them in fp32; arXiv 1710.03740"}};
}

// --- weights in bf16 -------------------------------------------------------------------------------------------------

/// bf16-true for bf16-mixed and the other way round.
Precision other_bf16(Precision p) { return p == Precision::Bf16True ? Precision::Bf16Mixed : Precision::Bf16True; }

bool bf16_weights(const AdviceCase& c) {
  const Recipe& r = c.request.recipe;
  if (!is_full(c) || (r.precision != Precision::Bf16True && r.precision != Precision::Bf16Mixed)) return false;
  const NamedSetting other = in(other_bf16(r.precision));
  return trained_state(whole_state(c, r)) != trained_state(whole_state(c, recipe_with(c, {other}))) &&
         estimate_with(c, {other});
}

/// Source: torch.optim makes states like the parameter; bf16 has 8 significant bits, so x + d = x for d below x / 256
/// or less (rounding to nearest). torch.autocast: "should not call .half() or .bfloat16() on the model".
std::vector<ExplainLine> bf16_weights_lines(const AdviceCase& c) {
  const Recipe pure = recipe_with(c, {in(Precision::Bf16True)}), mixed = recipe_with(c, {in(Precision::Bf16Mixed)});
  const auto other = estimate_with(c, {in(other_bf16(c.request.recipe.precision))});
  const bool is_pure = c.request.recipe.precision == Precision::Bf16True;
  const StrategyEstimate &a = is_pure ? c.chosen : *other, &b = is_pure ? *other : c.chosen;
  return {
      {"",
       fmt::format("A model loaded in bf16 or cast by .bf16() stays bf16 (bf16-true): weights, gradients and states of "
                   "{:.3g} bytes per parameter, {}; an update below 1/256 of its weight is lost. Autocast "
                   "(bf16-mixed) keeps them in fp32: {:.3g} bytes, {}. This plan is {}.",
                   state_per_parameter(c, pure), peak_and_step(a), state_per_parameter(c, mixed), peak_and_step(b),
                   is_pure ? "bf16-true" : "bf16-mixed"),
       "torch.optim: states are like the parameter; bf16 has 8 significant bits"}};
}

}  // namespace

const AdviceRow kQuantiseAlone{.name = "quantise-alone",
                               .title = "4 bit, no adapters",
                               .condition = "full fine-tuning",
                               .applies = is_full,
                               .lines = quantise_alone_lines};

const AdviceRow kMixedPrecision{
    .name = "mixed-precision",
    .title = "mixed precision",
    .condition = "full fine-tuning in bf16-mixed or fp16-mixed",
    .applies = [](const AdviceCase& c) { return is_full(c) && is_mixed(c.request.recipe.precision); },
    .lines = mixed_precision_lines};

const AdviceRow kBf16Weights{
    .name = "bf16-weights",
    .title = ".bf16() or autocast",
    .condition = "full fine-tuning in bf16-true or bf16-mixed, where the other of the two keeps another training state",
    .applies = bf16_weights,
    .lines = bf16_weights_lines};

}  // namespace gpuplan
