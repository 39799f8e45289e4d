// What an estimate chooses where nobody gave it, what it leaves, and how it words the way out where nothing fits.
#include "planner/free_choice.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/asked.h"
#include "planner/estimate.h"
#include "planner/job.h"
#include "planner/recommend.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

bool has(const std::vector<std::string>& lines, const std::string& part) {
  return std::ranges::any_of(lines, [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("free choice: the star that a plain question of 32B gets keeps all GPUs at work") {
  // 65 GB of weights on four cards of 48 GB: sharded with checkpointing; before, layers that take turns
  const EstimateResult result = estimate(freely(asked("qwen2.5-32b", "4xA6000", Method::Lora, 16)));
  CHECK(row(result, result.recommended->strategy).strategy.mesh.num_stages() == 1);
  CHECK(has(result.chosen.flags, "--checkpointing full"));
  REQUIRE(result.chosen.usual);
  CHECK(result.chosen.usual->strategy.name == "mp");
}

TEST_CASE("free choice: GPUs that take turns are no star where two changes at once let all of them work") {
  // Logits of 128,000 words times 32,768 tokens in fp32 fill a card, and so do the activations of 32 layers: fused loss
  // and checkpointing are each of no use alone. Eight GPUs that take turns are a sixth as fast.
  for (const auto& [model, gpus, method, tokens] : {std::tuple("llama-3.1-8b", "8xA100-80GB", Method::Lora, 32'768),
                                                    std::tuple("llama-3.1-70b", "8xH100", Method::Lora, 32'768),
                                                    std::tuple("llama-3.1-70b", "8xA100-80GB", Method::Full, 16'384),
                                                    std::tuple("qwen3-30b-a3b", "8xA100-80GB", Method::Full, 32'768)}) {
    CAPTURE(model);
    EstimateRequest r = freely(asked(model, gpus, method, 16));
    r.recipe.seq_len = tokens;
    const EstimateResult result = estimate(r);
    REQUIRE_FALSE(result.recommended->strategy.empty());
    CHECK_FALSE(row(result, result.recommended->strategy).strategy.takes_turns());
    CHECK(has(result.chosen.flags, "--checkpointing full"));
    CHECK(has(result.chosen.flags, "--loss fused"));
  }
}

TEST_CASE("free choice: the best plan is that of all strategies, those whose GPUs take turns among them") {
  // GPUs that take turns against sharded weights, more than fits, states that have to be sharded, and room for all
  for (const auto& [model, gpus, method] :
       {std::tuple("qwen2.5-32b", "4xA6000", Method::Lora), std::tuple("llama-3.1-70b", "4xA100-80GB", Method::Lora),
        std::tuple("llama-3-8b", "4xA6000", Method::Full), std::tuple("llama-3-8b", "4xA6000", Method::Lora)}) {
    CAPTURE(model);
    EstimateRequest r = asked(model, gpus, method);
    r.strategy = "auto";
    const Variant variant{r, default_profile(r.cluster.gpus.front())};
    const std::vector<StrategyEstimate> all = estimate_strategies(variant);
    const StrategyEstimate* const best = best_of(all, r.preference, variant.profile.time_error);
    const std::optional<StrategyEstimate> found = best_fitting(variant);
    REQUIRE(found.has_value() == (best != nullptr));
    if (!best) continue;
    CHECK(found->strategy.name == best->strategy.name);
    CHECK(found->time.step == best->time.step);
  }
}

TEST_CASE("free choice: where all rests on the host's memory, the GPUs hold the star well") {
  // 30B in full on two cards of 24 GB: weights and states on the host whatever is chosen. Layers of activations are
  // 20 GB, those of checkpointing 1; it costs nothing beside the copies.
  const EstimateResult result = estimate(freely(asked("qwen3-30b-a3b", "2x3090", Method::Full, 16)));
  const StrategyEstimate& star = row(result, result.recommended->strategy);
  REQUIRE(star.fit == Fit::IfHost);
  CHECK(star.fit_on_gpus() == Fit::Yes);
}

TEST_CASE("free choice: what was given stays, and nothing is chosen that was not left free") {
  EstimateRequest r = freely(asked("qwen2.5-32b", "4xA6000", Method::Lora, 16), {"checkpointing"});
  const EstimateResult given = estimate(r);
  CHECK(given.request.recipe.checkpointing == Checkpointing::None);
  CHECK_FALSE(has(given.chosen.flags, "--checkpointing"));
  r.not_given.are_chosen = false;
  const EstimateResult as_given = estimate(r);
  CHECK(as_given.chosen.flags.empty());
  settle_stack(r);  // the trainer as it is with this family of models
  CHECK(as_given.request.recipe == r.recipe);
}

TEST_CASE("free choice: the flags that were chosen, asked as they are, give the same plan") {
  for (const auto& [model, gpus, method] :
       {std::tuple("llama-3.1-8b", "2x4090", Method::Lora), std::tuple("llama-3.1-8b", "8xA100-80GB", Method::Full),
        std::tuple("llama-3.2-1b", "1x4090", Method::Full)}) {
    const EstimateResult chosen = estimate(freely(asked(model, gpus, method, 16)));
    REQUIRE_FALSE(chosen.recommended->strategy.empty());
    EstimateRequest flags = chosen.request;
    flags.not_given = {};
    const EstimateResult again = estimate(flags);
    CHECK(again.recommended->strategy == chosen.recommended->strategy);
    CHECK(row(again, again.recommended->strategy).tiers.process ==
          row(chosen, chosen.recommended->strategy).tiers.process);
  }
}

TEST_CASE("free choice: a trainer that cannot be told of a setting does not get it") {
  EstimateRequest r = freely(asked("llama-3.1-8b", "1x4090", Method::Full, 16));
  r.recipe.framework = find_framework("torch");  // whose record has no choices
  const EstimateResult plain = estimate(r);
  CHECK(plain.request.recipe.loss == LossKernel::Plain);
  CHECK_FALSE(plain.request.recipe.optimizer->is_8bit);
  // LLaMA-Factory has one switch for the fused loss and the fused kernels of layers
  const FrameworkConvention& factory = find_framework("llama-factory");
  Recipe recipe;
  recipe.loss = LossKernel::Fused;
  CHECK(layer_kernels(recipe, factory) == LayerKernels::Fused);
  CHECK(layer_kernels(recipe, find_framework("trl")) == LayerKernels::Plain);
  recipe.loss = LossKernel::Plain;
  CHECK(layer_kernels(recipe, factory) == LayerKernels::Plain);
}

TEST_CASE("free choice: weights in bf16 alone are chosen only where that quality will do") {
  // 6.74 B x 16 bytes over two cards of 40 GB do not fit, x 8 do
  EstimateRequest r = freely(asked("llama-2-7b", "2xa100-40gb", Method::Full, 16), {"offload", "optimizer"});
  CHECK(estimate(r).request.recipe.precision == Precision::Bf16Mixed);
  r.not_given.least_quality = Quality::Good;
  const EstimateResult good = estimate(r);
  CHECK(good.request.recipe.precision == Precision::Bf16True);
  CHECK_FALSE(good.recommended->strategy.empty());
}

TEST_CASE("free choice: what rests on the host is chosen where nothing else keeps the GPUs at work") {
  const EstimateResult roomy = estimate(freely(asked("llama-3.2-1b", "4xA6000", Method::Full, 16)));
  CHECK(roomy.request.recipe.offload.optimizer == OffloadTarget::None);
  CHECK(roomy.request.recipe.offload.params == OffloadTarget::None);
}

TEST_CASE("a clash of options has a way out, and is not told as lack of memory alone") {
  EstimateRequest r = freely(asked("llama-3.1-8b", "2x4090", Method::Qlora, 16), {"optimizer", "offload"});
  r.recipe.optimizer = "adamw-8bit";
  r.recipe.offload.optimizer = OffloadTarget::Cpu;
  const EstimateResult clash = estimate(r);
  CHECK(clash.recommended->strategy.empty());
  CHECK(has(clash.recommended->advice, "--optimizer adamw-fused"));
  CHECK(has(clash.recommended->advice, "--offload none"));
  // a version of FSDP that cannot shard the base
  EstimateRequest fsdp2 = freely(asked("llama-3.1-70b", "2x4090", Method::Qlora, 16), {"fsdp-version", "strategy"});
  fsdp2.options.fsdp_version = 2;
  fsdp2.strategy = "fsdp";
  CHECK(has(estimate(fsdp2).recommended->advice, "--fsdp-version 1"));
}

TEST_CASE("advice that enters QLoRA has the checkpointing that its command has, and full beside every=K") {
  // PEFT's preparation of a quantised base switches checkpointing on where nobody said anything of it
  EstimateRequest lora = asked("llama-3.1-8b", "1x4090", Method::Lora, 16);
  lora.not_given.rows = {"checkpointing"};
  const Setting qlora = set_to("qlora", "r=16"), back = set_to("lora", "r=16");
  const Variant entered = changed({lora, profile_of(lora)}, {&qlora, 1});
  CHECK(entered.request.recipe.checkpointing == Checkpointing::Full);
  CHECK(changed(entered, {&back, 1}).request.recipe.checkpointing == Checkpointing::None);
  lora.not_given.rows.clear();
  CHECK(changed({lora, profile_of(lora)}, {&qlora, 1}).request.recipe.checkpointing == Checkpointing::None);
  lora.recipe.checkpointing = Checkpointing::EveryK;
  lora.recipe.checkpoint_every = 4;
  CHECK(suggest(lora, Purpose::SaveMemory, "checkpointing")->setting.value == "full");
}

TEST_CASE("micro batch against accumulation is free where neither is given, at the same batch") {
  EstimateRequest r = freely(asked("llama-3.1-8b", "1xA100-80GB", Method::Lora, 16), {"checkpointing", "loss"});
  r.recipe.micro_batch = 16, r.recipe.seq_len = 4096;
  const EstimateResult result = estimate(r);
  CHECK(result.request.recipe.micro_batch < 16);
  CHECK(result.request.recipe.micro_batch * result.request.recipe.grad_accum == 16);
  CHECK(result.recommended->strategy == "single");
}
