#include "planner/limits.h"

#include <algorithm>

#include "models/ledger.h"

namespace gpuplan {
namespace {

/// Largest value in steps of `step` for which `fits`, starting the doubling at `from`; empty when not even `step` does.
template <class Fits>
std::optional<std::int64_t> largest(std::int64_t step, std::int64_t from, std::int64_t most, Fits fits) {
  const auto ok = [&](std::int64_t units) { return fits(units * step); };
  std::int64_t low = std::max<std::int64_t>(1, from / step);
  if (!ok(low)) {
    if (low == 1) return std::nullopt;
    std::int64_t high = low;
    low = 0;
    while (high - low > 1) {
      const std::int64_t mid = (low + high) / 2;
      (ok(mid) ? low : high) = mid;
    }
    return low > 0 ? std::optional(low * step) : std::nullopt;
  }
  std::int64_t high = low;
  while (high * step < most && ok(high)) low = high, high *= 2;
  if (high * step >= most) {
    high = most / step;
    if (ok(high)) return high * step;
  }
  while (high - low > 1) {
    const std::int64_t mid = (low + high) / 2;
    (ok(mid) ? low : high) = mid;
  }
  return low * step;
}

}  // namespace

double model_flops(const EstimateRequest& r, const TrainedModel& model, std::int64_t global_batch) {
  const ModelSpec& m = model.spec;
  const double tokens = double(global_batch) * double(r.recipe.seq_len);
  // every weight multiplies once per token but the embedding and position rows, which are looked up; a tied head
  // multiplies
  const bool multiplies_embedding = m.tie_word_embeddings && m.head == HeadKind::LanguageModel;
  const double looked_up =
      double((multiplies_embedding ? 0 : m.vocab_size * m.embedding_width()) + m.learned_positions * m.hidden_size);
  const double idle = double(model.weights.total_elements() - model.weights.active_elements(m.moe));
  const double matmul = double(model.parameters) - idle - looked_up;
  const double per_token = r.recipe.is_adapter() ? 4 * matmul + 6 * double(model.trainable) : 6 * matmul;
  const double windowed = double(std::min(m.sliding_layers, m.num_hidden_layers)),
               full = double(m.num_hidden_layers) - windowed;
  const double attention =
      full * attention_flops(m, 1, r.recipe.seq_len, {.is_causal = m.is_causal}) +
      windowed * attention_flops(m, 1, r.recipe.seq_len, {.is_windowed = m.sliding_window > 0}) +
      double(m.num_encoder_layers + (m.num_encoder_layers > 0 ? m.num_hidden_layers : 0)) *  // encoder, cross-attention
          attention_flops(m, 1, r.recipe.seq_len, {.is_causal = false});
  return tokens * per_token + 3 * attention * double(global_batch);
}

void find_limits(StrategyEstimate& e, const EstimateRequest& request, const TrainedModel& model,
                 const FrameworkConvention& framework, const Profile& profile, StepProgram& program) {
  EstimateRequest r = request;
  StrategyEstimate probe{.strategy = e.strategy};
  constexpr std::int64_t kMostSequences = 4096, kMostTokens = 4 << 20, kTokenStep = 256;
  const auto fits = [&] { return evaluate(probe, r, model, framework, profile, program); };
  e.max_micro_batch = largest(1, r.recipe.micro_batch, kMostSequences, [&](std::int64_t b) {
    r.recipe.micro_batch = b;
    return fits();
  });
  r.recipe.micro_batch = request.recipe.micro_batch;
  e.max_seq_len = largest(kTokenStep, r.recipe.seq_len, kMostTokens, [&](std::int64_t s) {
    r.recipe.seq_len = s;
    return fits();
  });
}

}  // namespace gpuplan
