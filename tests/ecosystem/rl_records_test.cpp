// A law of the records of trainers that generate: each plan that they offer is written as the trainer's own files,
// which obey its rules and are read back as the same plan (`export` checks both), or it is said that there are none.
#include <algorithm>
#include <array>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "ecosystem/exported.h"
#include "ecosystem/method_files.h"
#include "models/framework.h"
#include "models/rollout.h"
#include "models/training_method.h"
#include "planner/rollout_phases.h"

namespace gpuplan {

using namespace test;

namespace {

struct Machine {
  const char *model, *gpus;
  Method method;
};
constexpr std::array kMachines{Machine{"qwen2.5-0.5b", "8xH100", Method::Full},
                               Machine{"qwen2.5-1.5b", "4xA6000", Method::Lora},
                               Machine{"qwen2.5-0.5b", "1xA100-80GB", Method::Full}};

/// A question of the trainer's defaults.
EstimateRequest asked(const std::string& framework, const TrainingMethod& method, const Machine& machine) {
  EstimateRequest r;
  r.model = load_model(machine.model).spec;
  r.cluster = parse_gpus(machine.gpus);
  Recipe& recipe = r.recipe;
  recipe.framework = framework;
  recipe.objective.method = method.name;
  recipe.method = machine.method;
  const FrameworkDefaults& usual = recipe.framework->defaults;
  recipe.optimizer = recipe.framework->default_optimizer;
  recipe.checkpointing = Checkpointing::Full;
  recipe.precision = usual.precision.value_or(Precision::Bf16Mixed);
  recipe.attention = usual.attention.value_or(AttentionKernel::Sdpa);
  recipe.micro_batch = 4;
  r.rollout.generations = method.generations > 0 ? 0 : 4;
  r.rollout.prompt_len = 128, r.rollout.max_completion = 128;
  settle_rows(r, {});
  return r;
}

bool is_generated_by(const TrainingMethod& method, const std::string& framework) {
  const std::vector<std::string>& known = find_framework(framework).preference.methods;
  const bool has_teacher = method.distils || method.has_pass_of(PassModel::Teacher);  // which a question names
  return method.generates && !has_teacher && method.like == method.name && std::ranges::count(known, method.name) > 0;
}

}  // namespace

TEST_CASE("every plan of a trainer that generates is written as its files, or no files are promised") {
  constexpr std::string_view kPromise = "writes files that train it";
  int num_plans = 0, num_written = 0;
  for (const RolloutConvention& trainer : rollout_conventions())
    for (const TrainingMethod& method : training_methods())
      for (const Machine& machine : kMachines) {
        if (!is_generated_by(method, trainer.framework)) continue;
        EstimateRequest r = asked(trainer.framework, method, machine);
        const EstimateResult result = estimate(r);
        for (const StrategyEstimate& e : result.strategies) {
          if (!e.not_applicable.empty() || !e.fits()) continue;
          r.strategy = e.strategy.name;
          const std::string hint = export_hint("plan.json", r);
          const std::string plan = fmt::format("{} {} {} {}", trainer.framework, method.name, machine.gpus, r.strategy);
          const bool is_promised = has_text(hint, kPromise);
          CAPTURE(plan);
          CAPTURE(hint);
          if (is_promised)
            CHECK(has_text(hint, fmt::format("gpuplan export plan.json --for {} writes", trainer.framework)));
          else
            CHECK(has_text(hint, fmt::format("gpuplan writes no files of {}", trainer.framework)));
          // ms-swift's files do not say FSDP yet, nor fp32 weights beside bf16 without DeepSpeed
          const bool has_files = find_method_files(trainer.framework, method.name) != nullptr;
          const bool is_open = trainer.framework == "ms-swift" && e.strategy.engine != ShardingEngine::Zero;
          CHECK((is_promised == has_files || (is_open && has_text(hint, "for it: the files of ms-swift"))));
          ++num_plans, num_written += is_promised ? 1 : 0;
        }
      }
  CHECK(num_plans > 300);
  CHECK(num_written > 60);
}

TEST_CASE("trainers that generate are planned with the strategies that they have") {
  const TrainingMethod& grpo = find_training_method("grpo");
  const auto star = [&](const char* framework) {
    // of a batch of 32 answers one GPU trains a smaller model as fast as eight
    return estimate(asked(framework, grpo, {"qwen2.5-7b", "8xH100", Method::Full})).recommended->strategy;
  };
  for (const char* framework : {"verl", "prime-rl", "nemo-rl"}) {
    CAPTURE(framework);
    const std::string chosen = star(framework), name = framework;
    CAPTURE(name);
    CAPTURE(chosen);
    CHECK(std::ranges::count(std::array<std::string, 3>{"fsdp", "fsdp-grad-op", "hsdp"}, chosen) == 1);
  }
  for (const char* framework : {"verl-megatron", "nemo-rl-megatron", "megatron-swift"}) {
    const std::string chosen = star(framework), name = framework;
    CAPTURE(name);
    CAPTURE(chosen);
    CHECK((chosen.empty() || has_strategy(find_framework(framework), chosen)));
    CHECK_FALSE(has_strategy(find_framework(framework), "zero3"));
  }
}

}  // namespace gpuplan
