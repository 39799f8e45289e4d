// PPO as phases, by arithmetic: a critic as a second training state, a reward model and a reference beside the policy,
// whole or in shards. Sources: docs/rl.md, data/methods.yaml, data/rl_trainers.yaml.
#include <algorithm>

#include <doctest/doctest.h>

#include "models/catalogue.h"
#include "models/framework.h"
#include "models/training_method.h"
#include "planner/estimate.h"
#include "planner/phases.h"
#include "planner/rollout_phases.h"

using namespace gpuplan;

namespace ppo {
namespace {

EstimateRequest ask(const char* framework, const char* strategy, const char* gpus, const char* engine) {
  EstimateRequest r;
  r.model = load_model("qwen2.5-0.5b").spec;
  r.cluster = parse_gpus(gpus);
  r.recipe.objective.method = "ppo";
  r.recipe.objective.completion_len = 256;
  r.recipe.framework = framework;
  r.recipe.optimizer = "adamw-fused";
  r.recipe.seq_len = 512;
  r.recipe.micro_batch = 2;
  r.recipe.packing = Packing::Dynamic;
  r.recipe.checkpointing = Checkpointing::Full;
  r.rollout.engine = parse_engine(engine);
  r.rollout.prompt_len = 256, r.rollout.max_completion = 256;
  r.strategy = strategy;
  return r;
}

StrategyEstimate answer(const EstimateRequest& r) {
  StrategyEstimate e = estimate(r).strategies.front();
  REQUIRE(e.not_applicable == "");
  return e;
}

const PhaseFigures& phase(const StrategyEstimate& e, std::string_view begin) {
  const auto found = std::ranges::find_if(e.phases, [&](const PhaseFigures& p) { return p.name.starts_with(begin); });
  REQUIRE(found != e.phases.end());
  return *found;
}

bool has_phase(const StrategyEstimate& e, std::string_view begin) {
  return std::ranges::any_of(e.phases, [&](const PhaseFigures& p) { return p.name.starts_with(begin); });
}

// Qwen2.5-0.5B: 494,032,768 parameters with the embedding, which the head shares; hidden size 896
constexpr std::int64_t kPolicy = 494'032'768, kHidden = 896;
constexpr std::int64_t kScored = kPolicy + kHidden;  // a row of numbers in the place of the vocabulary

}  // namespace

TEST_CASE("PPO in ZeRO-3: two training states, a reference and a reward model, each in as many parts as GPUs") {
  constexpr std::int64_t kGpus = 4;
  const StrategyEstimate e = answer(ask("openrlhf", "zero3", "4xH100", "vllm:server,gpus=4"));
  const PhaseFigures &policy = phase(e, "pass with gradients"), &critic = phase(e, "training of the critic");
  // 2 bytes of bf16 weights and 12 of fp32 master and moments for each parameter; small ones are whole on every GPU
  const double states = 14.0 / kGpus;
  CHECK(double(policy.resident.count) / double(kPolicy) == doctest::Approx(states).epsilon(0.02));
  CHECK(double(critic.resident.count) / double(kScored) == doctest::Approx(states).epsilon(0.02));
  CHECK(double(phase(e, "log-probs of the reference").resident.count) / double(kPolicy) ==
        doctest::Approx(2.0 / kGpus).epsilon(0.02));
  CHECK(double(phase(e, "scores of the reward model").resident.count) / double(kScored) ==
        doctest::Approx(2.0 / kGpus).epsilon(0.02));
  CHECK(phase(e, "values of the critic").resident.count == 0);  // the critic that is trained
  // all of it is there while any of it runs
  const std::int64_t all = policy.resident.count + critic.resident.count +
                           phase(e, "log-probs of the reference").resident.count +
                           phase(e, "scores of the reward model").resident.count;
  CHECK(e.peak.resident.count == all);
}

TEST_CASE("PPO by FSDP holds fp32 shards of policy and critic; verl judges by a function and has no reference") {
  constexpr std::int64_t kGpus = 2;
  EstimateRequest r = ask("verl", "fsdp", "2xH100", "vllm:tp=1,util=0.3");
  r.recipe.optimizer = "adamw-foreach";
  const StrategyEstimate e = answer(r);
  // fp32 weights and two fp32 moments: 12 bytes; gradients come and go
  CHECK(double(phase(e, "pass with gradients").resident.count) / double(kPolicy) ==
        doctest::Approx(12.0 / kGpus).epsilon(0.02));
  CHECK(double(phase(e, "training of the critic").resident.count) / double(kScored) ==
        doctest::Approx(12.0 / kGpus).epsilon(0.02));
  CHECK_FALSE(has_phase(e, "scores of the reward model"));
  CHECK_FALSE(has_phase(e, "log-probs of the reference"));
  r.reward_model = std::make_shared<const ModelSpec>(load_model("qwen2.5-1.5b").spec);
  CHECK(phase(answer(r), "scores of the reward model").resident.count >
        1'500'000'000LL);  // 2 bytes of 1.54e9 on 2 GPUs
}

TEST_CASE("a critic is trained as often as the policy and takes as long but for the vocabulary") {
  const StrategyEstimate e = answer(ask("openrlhf", "zero2", "2xH100", "vllm:server,gpus=2"));
  const double policy = phase(e, "pass with gradients").time.step.value,
               critic = phase(e, "training of the critic").time.step.value;
  CHECK(critic < policy);
  CHECK(critic > 0.5 * policy);
  Seconds sum;
  for (const PhaseFigures& p : e.phases) sum += p.time.step - p.beside;
  CHECK(e.time.step.value == doctest::Approx(sum.value));
}

TEST_CASE("another critic and a function that judges are what the flags say") {
  EstimateRequest r = ask("openrlhf", "zero3", "4xH100", "vllm:server,gpus=4");
  const StrategyEstimate same = answer(r);
  r.critic = std::make_shared<const ModelSpec>(load_model("qwen2.5-1.5b").spec);
  r.rollout.judged_by_function = true;
  const StrategyEstimate other = answer(r);
  CHECK(2 * phase(other, "training of the critic").resident.count >
        5 * phase(same, "training of the critic").resident.count);
  CHECK_FALSE(has_phase(other, "scores of the reward model"));
}

TEST_CASE("TRL's generate() for PPO keeps the logits of every token that it writes") {
  // 2 answers of 256 tokens on one GPU, 151,936 numbers each, of 4 bytes under accelerate
  const StrategyEstimate ppo = answer(ask("trl", "single", "1xH100", "hf"));
  EstimateRequest r = ask("trl", "single", "1xH100", "hf");
  r.recipe.objective.method = "rloo";
  r.rollout.generations = 2;
  const StrategyEstimate rloo = answer(r);
  const std::int64_t states = ppo.peak.resident.count - rloo.peak.resident.count;
  const std::int64_t more = phase(ppo, "generation").tensors.count - phase(rloo, "generation").tensors.count - states;
  CHECK(more == 2LL * 256 * 151'936 * 4);
}

TEST_CASE("one answer to a prompt is usual, and the larger side takes the time where it works one step ahead") {
  CHECK(usual_generations(ask("trl", "single", "1xH100", "hf").recipe) == 1);
  EstimateRequest r = ask("openrlhf", "zero3", "4xH100", "vllm:server,gpus=4,async");
  const StrategyEstimate e = answer(r);
  const PhaseFigures& generation = phase(e, "generation");
  Seconds train;
  for (const PhaseFigures& p : e.phases)
    if (p.kind == PhaseKind::Training || p.kind == PhaseKind::OldLogProbs || p.kind == PhaseKind::OtherPass)
      train += p.time.step;
  CHECK(generation.beside.value == doctest::Approx(std::min(generation.time.step.value, train.value)));
}

}  // namespace ppo
