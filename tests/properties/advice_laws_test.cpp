// No plan that estimate shows is beaten, by more than the error of predictions, by one that is a single change away,
// fits as well and whose GPUs take no turns where those of the shown plan take none. The changes are written out here,
// apart from the table of changes.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include <fmt/format.h>

#include "models/catalogue.h"
#include "planner/changes.h"
#include "planner/estimate.h"
#include "planner/recommend.h"
#include "sanitized.h"

using namespace gpuplan;

namespace {

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  template <class T, std::size_t N>
  const T& pick(const T (&values)[N]) {
    return values[std::size_t(random_() % N)];
  }

 private:
  std::mt19937_64 random_;
};

EstimateRequest random_question(Dice& dice) {
  EstimateRequest r;
  r.model = load_model(dice.pick({"llama-3.2-1b", "llama-3.2-3b", "llama-3.1-8b", "qwen2.5-7b", "mistral-7b-v0.1",
                                  "llama-2-13b", "qwen2.5-32b", "llama-3.1-70b", "gemma-2-9b"}))
                .spec;
  r.cluster = parse_gpus(dice.pick({"1x4090", "1xA6000", "2x3090", "2x4090", "4xA6000", "4xA100", "8xH100", "1xA100"}));
  r.recipe.method = dice.pick({Method::Full, Method::Lora, Method::Lora, Method::Qlora, Method::Qlora});
  if (r.recipe.method == Method::Qlora) r.recipe.quant.kind = BaseQuant::Nf4;
  r.recipe.lora.rank = dice.pick({8, 16, 64});
  r.recipe.seq_len = dice.pick({512, 2048, 8192});
  r.recipe.micro_batch = dice.pick({1, 1, 2, 4, 8});
  r.recipe.grad_accum = dice.pick({1, 1, 4, 8});
  r.recipe.checkpointing = dice.pick({Checkpointing::None, Checkpointing::None, Checkpointing::Full});
  r.recipe.loss = dice.pick({LossKernel::Plain, LossKernel::Plain, LossKernel::Fused});
  r.recipe.attention = dice.pick({AttentionKernel::Sdpa, AttentionKernel::Sdpa, AttentionKernel::Eager});
  r.strategy = dice.pick({"auto", "auto", "auto", "ddp", "fsdp", "mp"});
  r.preference = dice.pick({Preference::Speed, Preference::Speed, Preference::Cost, Preference::Memory});
  return r;
}

/// Questions that train the same model on the same tokens per step, one change away.
std::vector<EstimateRequest> neighbours(const EstimateRequest& r) {
  std::vector<EstimateRequest> out;
  const auto with = [&](auto change) { change(out.emplace_back(r).recipe); };
  with([](Recipe&) {});  // another strategy alone
  for (const Checkpointing c : {Checkpointing::None, Checkpointing::Full})
    with([c](Recipe& x) { x.checkpointing = c; });
  with([](Recipe& x) { x.loss = LossKernel::Fused; });
  with([](Recipe& x) { x.attention = AttentionKernel::Sdpa; });
  for (const std::int64_t k : {2, 4, 8}) {
    if (r.recipe.micro_batch % k == 0) with([k](Recipe& x) { x.micro_batch /= k, x.grad_accum *= k; });
    if (r.recipe.grad_accum % k == 0) with([k](Recipe& x) { x.micro_batch *= k, x.grad_accum /= k; });
  }
  return out;
}

double score(const StrategyEstimate& e, Preference preference) {
  if (preference == Preference::Memory) return double(e.tiers.process.count);
  return (preference == Preference::Cost ? double(e.num_gpus_used) : 1.0) / e.tokens_per_second;
}

std::string text_of(const EstimateRequest& r) {
  return fmt::format("{} method {} on {}, micro batch {} x {}, {} tokens, strategy {}, preference {}", r.model.name,
                     int(r.recipe.method), r.cluster.gpus.front().name, r.recipe.micro_batch, r.recipe.grad_accum,
                     r.recipe.seq_len, r.strategy, int(r.preference));
}

}  // namespace

TEST_CASE("no shown plan is beaten by more than the error by a plan one change away") {
  Dice dice(20261123);
  int num_answers = 0, num_better = 0;
  const int num_questions = test::num_rounds(40, 150, 500);
  for (int i = 0; i < num_questions; ++i) {
    const EstimateRequest r = random_question(dice);
    CAPTURE(text_of(r));
    const EstimateResult result = estimate(r);
    if (result.recommended->strategy.empty()) continue;
    ++num_answers;
    const auto chosen = std::find_if(result.strategies.begin(), result.strategies.end(),
                                     [&](const auto& e) { return e.strategy.name == result.recommended->strategy; });
    const StrategyEstimate* leading = &*chosen;
    for (const BetterWay& way : result.recommended->better) {
      if (score(way.plan, r.preference) < score(*leading, r.preference)) leading = &way.plan;
      CHECK(way.plan.fits());
    }
    const double shown = score(*leading, r.preference);
    num_better += result.recommended->better.empty() ? 0 : 1;
    CHECK(result.recommended->better.size() <= 2);
    double best = shown;
    for (EstimateRequest other : neighbours(r)) {
      other.strategy = "auto";
      for (const StrategyEstimate& e : estimate_strategies({other, result.profile}))
        if (e.fit == Fit::Yes && rank_of(e) >= rank_of(*leading)) best = std::min(best, score(e, r.preference));
    }
    CHECK(shown <= best * (1 + result.profile.time_error) * (1 + 1e-9));
  }
  CHECK(5 * num_answers > num_questions);
  CHECK(20 * num_better > num_questions);
}
