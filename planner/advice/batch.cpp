// The batch: how large is worth while, what one optimizer step sees, and what generation during evaluation adds.
#include <algorithm>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "planner/advice.h"

namespace gpuplan {
namespace {

// --- a larger batch --------------------------------------------------------------------------------------------------

struct BatchPoint {
  std::int64_t micro_batch{};
  StrategyEstimate estimate;
};

/// The plan at 1, 2, 4 … times its micro batch, up to the largest that fits.
std::vector<BatchPoint> batch_series(const AdviceCase& c) {
  const std::int64_t most = *c.chosen.max_micro_batch;
  std::vector<BatchPoint> out{{c.request.recipe.micro_batch, c.chosen}};
  while (out.back().micro_batch < most) {
    const std::int64_t next = std::min(2 * out.back().micro_batch, most);
    auto e = estimate_with(c, {{"micro-batch", std::to_string(next)}});
    if (!e) break;
    out.push_back({next, *std::move(e)});
  }
  return out;
}

bool larger_batch(const AdviceCase& c) {
  return c.chosen.fits() && c.chosen.max_micro_batch && *c.chosen.max_micro_batch >= 2 * c.request.recipe.micro_batch;
}

/// Source: the roofline of a step flattens once its matmuls are compute bound, while activations and logits keep
/// growing with the batch (Kaplan et al. 2020 section 5.1 on the critical batch size).
std::vector<ExplainLine> larger_batch_lines(const AdviceCase& c) {
  constexpr double kNearlyAll = 0.95;
  const auto series = batch_series(c);
  const auto speed = [](const BatchPoint& p) { return p.estimate.tokens_per_second; };
  const double best = speed(*std::max_element(series.begin(), series.end(),
                                              [&](const auto& a, const auto& b) { return speed(a) < speed(b); }));
  const auto enough =
      *std::find_if(series.begin(), series.end(), [&](const auto& p) { return speed(p) >= kNearlyAll * best; });
  const BatchPoint& last = series.back();
  const auto figure = [&](const BatchPoint& p) {
    return fmt::format("{} tokens/s at {}", format_count(std::int64_t(speed(p))), format_bytes(peak_of(p.estimate)));
  };
  std::string text = fmt::format("Micro batch {} makes {}", c.request.recipe.micro_batch, figure(series.front()));
  if (enough.micro_batch > c.request.recipe.micro_batch && enough.micro_batch < last.micro_batch)
    text += fmt::format(", {} makes {}", enough.micro_batch, figure(enough));
  text += fmt::format(", {}, the largest that fits{}, {}.", last.micro_batch,
                      last.estimate.fits_well() ? "" : " if the prediction is exact", figure(last));
  text += enough.micro_batch < last.micro_batch
              ? fmt::format(" From {} on, more only fills the GPU: less than 5 % is left to gain.", enough.micro_batch)
              : std::string(" Speed still grows.");
  text += fmt::format(" The global batch would grow from {} to {}.", c.chosen.global_batch, last.estimate.global_batch);
  return {{"", text, "the plan estimated at every doubling of the micro batch"}};
}

// --- what one step sees ----------------------------------------------------------------------------------------------

bool effective_batch(const AdviceCase& c) {
  return c.chosen.strategy.mesh.batch_replicas() > 1 || c.request.recipe.grad_accum > 1;
}

/// Source: accelerate src/accelerate/scheduler.py: AcceleratedScheduler.step() steps num_processes times per optimizer
/// step unless the dataloader splits its batches; transformers' Trainer steps a scheduler that it did not prepare.
std::vector<ExplainLine> effective_batch_lines(const AdviceCase& c) {
  const Recipe& r = c.request.recipe;
  const std::int64_t replicas = c.chosen.strategy.mesh.batch_replicas();
  std::string text = fmt::format(
      "{} per rank x {} accumulated x {} ranks = {} sequences ({} tokens) per optimizer step, {} steps per epoch.",
      r.micro_batch, r.grad_accum, replicas, format_grouped(c.chosen.global_batch),
      format_grouped(c.chosen.global_batch * r.seq_len), format_grouped(c.chosen.steps_per_epoch));
  if (replicas > 1)
    text += fmt::format(
        " A scheduler prepared by accelerate advances {} times in each, so give it {} steps per epoch; Trainer's own "
        "advances once.",
        replicas, format_grouped(replicas * c.chosen.steps_per_epoch));
  return {{"", text, "arithmetic; accelerate scheduler.py: num_processes steps unless split_batches"}};
}

// --- generation in evaluation ----------------------------------------------------------------------------------------

/// Source: keys and values of every layer and token stay (transformers DynamicCache), key and value width each.
/// Under sharded weights every generated token is a forward pass that gathers them (DeepSpeed ZeRO-3, `synced_gpus`).
std::vector<ExplainLine> generation_cache_lines(const AdviceCase& c) {
  const ModelSpec& m = c.result.model.spec;
  const Recipe& r = c.request.recipe;
  const auto training = estimate_with(c, {{"eval-generate", "0"}});
  std::string text = fmt::format(
      "Keys and values take {} layers x ({} + {}) x 2 bytes = {} per token: {} for {} sequence{} of {} + {} tokens.",
      m.num_layers_with(attends), m.kv_width(), m.value_width(), format_bytes(kv_bytes_per_token(m)),
      format_bytes(generation_cache(c.request, m)), r.micro_batch, r.micro_batch == 1 ? "" : "s",
      format_grouped(r.seq_len), format_grouped(c.request.eval_generate));
  if (training)
    text += peak_of(c.chosen) > peak_of(*training)
                ? fmt::format(" Evaluation sets the peak, {} instead of {}: lower its batch.",
                              format_bytes(peak_of(c.chosen)), format_bytes(peak_of(*training)))
                : fmt::format(" Training's peak of {} stays higher.", format_bytes(peak_of(*training)));
  if (c.chosen.strategy.layout.shards_weights) {
    const StateSizes gathered = rank_state(c, r);
    text += fmt::format(" Under {} each new token gathers {} of weights.", c.chosen.strategy.name,
                        format_bytes(gathered.trained_gathered + gathered.frozen_gathered));
  }
  return {{"", text, "transformers DynamicCache: keys and values of every layer in 16 bit"}};
}

}  // namespace

const AdviceRow kLargerBatch{.name = "larger-batch",
                             .title = "a larger batch",
                             .condition = "the plan fits, and so does a micro batch twice as large",
                             .applies = larger_batch,
                             .lines = larger_batch_lines};

const AdviceRow kEffectiveBatch{.name = "effective-batch",
                                .title = "effective batch",
                                .condition = "several data-parallel ranks, or gradient accumulation",
                                .applies = effective_batch,
                                .lines = effective_batch_lines};

const AdviceRow kGenerationCache{.name = "generation-cache",
                                 .title = "generation",
                                 .condition = "evaluation generates text (--eval-generate)",
                                 .applies = [](const AdviceCase& c) { return c.request.eval_generate > 0; },
                                 .lines = generation_cache_lines};

}  // namespace gpuplan
