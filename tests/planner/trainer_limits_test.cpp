// Bases, optimizers and precisions that a trainer's code does not have are refused, and offered by nothing.
#include "models/trainer_limits.h"

#include <algorithm>
#include <memory>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.h"
#include "models/catalogue.h"
#include "models/framework.h"
#include "models/optimizers.h"
#include "models/training_method.h"
#include "planner/estimate.h"
#include "planner/rollout_phases.h"

namespace gpuplan {
namespace {

EstimateRequest of_trainer(const std::string& framework) {
  EstimateRequest r;
  r.model = load_model("qwen2.5-0.5b").spec;
  r.cluster = parse_gpus("8xH100");
  r.recipe.framework = framework;
  const bool writes_answers = rollout_convention(framework) != nullptr;
  if (writes_answers) r.recipe.objective.method = "grpo";
  r.recipe.optimizer = r.recipe.framework->default_optimizer;
  r.recipe.precision = r.recipe.framework->defaults.precision.value_or(Precision::Bf16Mixed);
  r.recipe.micro_batch = 8;
  if (!writes_answers) return r;
  r.rollout.generations = 8;
  settle_rows(r, {});
  return r;
}

std::string flag_refused(const Recipe& recipe) {
  const auto beyond = beyond_limits(recipe, false);
  return beyond ? beyond->flag : "";
}

}  // namespace

TEST_CASE("limits of a trainer name rows of the tables, and its defaults lie within them") {
  for (const FrameworkConvention& framework : list_frameworks()) {
    const TrainerLimits& has = limits_of(framework.name);
    CAPTURE(framework.name);
    for (const std::string& name : has.optimizers) CHECK(find_optimizer(name).name == name);
    if (has.framework.empty()) continue;
    CHECK(has.source.size() > 20);
    CHECK(flag_refused(of_trainer(framework.name).recipe) == "");
  }
}

TEST_CASE("a reference waits on the host where the trainer moves it there") {
  for (const auto& [framework, is_refused] :
       {std::pair("trl", true), std::pair("axolotl", true), std::pair("llama-factory", true),
        std::pair("openrlhf", false), std::pair("verl", false), std::pair("nemo-rl", false)}) {
    CAPTURE(framework);
    Recipe recipe = of_trainer(framework).recipe;
    recipe.objective.reference = Reference::Host;
    CHECK(flag_refused(recipe) == (is_refused ? "--ref" : ""));
    recipe.objective.reference = Reference::Copy;
    CHECK(flag_refused(recipe) == "");
  }
}

TEST_CASE("rows are packed for the methods that the trainer packs") {
  for (const auto& [framework, method, is_refused] :
       {std::tuple("axolotl", "sft", false), std::tuple("axolotl", "dpo", true), std::tuple("trl", "sft", false),
        std::tuple("trl", "distill", false), std::tuple("trl", "dpo", true), std::tuple("trl", "kto", true),
        std::tuple("trl", "classify", true), std::tuple("trl", "grpo", false),
        std::tuple("llama-factory", "sft", false), std::tuple("llama-factory", "dpo", true),
        std::tuple("llama-factory", "kto", true), std::tuple("ms-swift", "dpo", false)}) {
    CAPTURE(framework);
    CAPTURE(method);
    Recipe recipe = of_trainer(framework).recipe;
    recipe.objective.method = method;
    recipe.packing = Packing::Packed;
    CHECK(flag_refused(recipe) == (is_refused ? "--packing" : ""));
    recipe.packing = Packing::Dynamic;
    CHECK(flag_refused(recipe) == "");
  }
}

TEST_CASE("torchtune and TRL distil a teacher of the same vocabulary alone") {
  for (const char* framework : {"torchtune", "trl"}) {
    CAPTURE(framework);
    EstimateRequest r = of_trainer(framework);
    r.recipe.objective.method = "distill";
    r.teacher = std::make_shared<ModelSpec>(load_model("llama-3.1-8b").spec);
    CHECK_THROWS_WITH_AS(estimate(r), doctest::Contains("compares the vocabularies whole"), InputError);
    r.teacher = std::make_shared<ModelSpec>(load_model("qwen2.5-3b").spec);
    CHECK(estimate(r).recommended);
  }
}

TEST_CASE("4-bit bases, 8-bit optimizers and precisions that a trainer has not are refused by their flag") {
  for (const auto& [framework, bases, optimizer, precision] :
       {std::tuple("verl", false, true, true), std::tuple("nemo-rl", false, false, false),
        std::tuple("prime-rl", false, false, true), std::tuple("openrlhf", true, false, false),
        std::tuple("megatron-swift", true, false, true), std::tuple("trl", true, true, true)}) {
    CAPTURE(framework);
    Recipe recipe = of_trainer(framework).recipe;
    Recipe quantised = recipe;
    quantised.method = Method::Qlora;
    quantised.quant.kind = BaseQuant::Nf4;
    CHECK(flag_refused(quantised) == (bases ? "" : "--qlora"));
    Recipe small = recipe;
    small.optimizer = "adamw-8bit";
    CHECK(flag_refused(small) == (optimizer ? "" : "--optimizer"));
    recipe.precision = Precision::Bf16True;
    CHECK(flag_refused(recipe) == (precision ? "" : "--precision"));
  }
}

TEST_CASE("torch.compile is refused where a trainer puts no model through it, and offered by nothing") {
  for (const auto& [framework, compiles] :
       {std::pair("openrlhf", false), std::pair("verl", false), std::pair("nemo-rl", false),
        std::pair("megatron", false), std::pair("megatron-swift", false), std::pair("verl-megatron", false),
        std::pair("nemo-rl-megatron", false), std::pair("internevo", false), std::pair("llm-c", false),
        std::pair("llmq", false), std::pair("native", false), std::pair("trl", true), std::pair("torchtitan", true)}) {
    CAPTURE(framework);
    EstimateRequest r = of_trainer(framework);
    const EstimateResult result = estimate(r);
    REQUIRE(result.recommended);
    for (const BetterWay& way : result.recommended->better)
      if (!compiles) CHECK(std::ranges::count(way.flags, "--compile") == 0);
    r.recipe.torch_compile = true;
    CHECK(flag_refused(r.recipe) == (compiles ? "" : "--compile"));
  }
}

TEST_CASE("what would be better is something that the trainer has") {
  for (const char* framework : {"verl", "nemo-rl", "prime-rl", "openrlhf"}) {
    EstimateRequest r = of_trainer(framework);
    r.model = load_model("qwen2.5-14b").spec;
    const EstimateResult result = estimate(r);
    REQUIRE(result.recommended);
    for (const BetterWay& way : result.recommended->better)
      for (const std::string& flag : way.flags) {
        CAPTURE(framework);
        CAPTURE(flag);
        CHECK(flag.find("qlora") == std::string::npos);
        if (std::string(framework) != "verl") CHECK(flag.find("8bit") == std::string::npos);
      }
  }
}

TEST_CASE("OpenRLHF's reference is a copy beside adapters, and verl's the policy without them") {
  for (const auto& [framework, reference] :
       {std::pair("openrlhf", Reference::Copy), std::pair("verl", Reference::Adapter)}) {
    Recipe recipe = of_trainer(framework).recipe;
    recipe.method = Method::Lora;
    CHECK(usual_reference(recipe) == reference);
  }
}

}  // namespace gpuplan
