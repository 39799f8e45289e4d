// Checkpoints that are quantised already, as trainers load them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.h"
#include "cluster/gpu_list.h"
#include "models/catalogue.h"
#include "models/framework.h"
#include "models/stack.h"
#include "planner/job.h"

using namespace gpuplan;

namespace {

struct Settled {
  EstimateRequest request;
  std::vector<std::string> notes;
};

Settled settled(const char* model, const char* framework, Method method = Method::Lora, const char* versions = "") {
  Settled s{.request = {.model = load_model(model).spec}, .notes = {}};
  s.request.recipe.method = method;
  s.request.recipe.framework = resolve_framework(framework, {.given = parse_stack_versions(versions), .date = {}});
  s.notes = settle_stack(s.request);
  return s;
}

}  // namespace

TEST_CASE("a checkpoint that stays quantised is the base of the adapters") {
  const Settled gptq = settled("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "hf-trainer");
  CHECK(gptq.request.recipe.quant.kind == BaseQuant::Gptq4);
  CHECK(gptq.request.recipe.method == Method::Qlora);
  CHECK(gptq.notes.at(0) == "the checkpoint is quantised (gptq in 4 bits)");
  const Settled eight = settled("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "hf-trainer");
  CHECK(eight.request.recipe.method == Method::Lora);
  CHECK(eight.request.recipe.quant.bits() == 8);
}

TEST_CASE("a checkpoint that is not trained as it is stored is unpacked, by versions") {
  CHECK(settled("Qwen/Qwen3-8B-FP8", "hf-trainer").request.recipe.quant.kind == BaseQuant::None);
  CHECK(settled("gpt-oss-20b", "llama-factory").notes.at(0) ==
        "the checkpoint is quantised (mxfp4): unpacked to 16 bit while it loads, as llama-factory does");
  // FineGrainedFP8Config has dequantize from 5.0 on
  CHECK_THROWS_WITH_AS(settled("Qwen/Qwen3-8B-FP8", "hf-trainer", Method::Lora, "transformers=4.57"),
                       doctest::Contains("adapters are not trained on that with"), InputError);
}

TEST_CASE("a quantised checkpoint is not trained as a whole, and no change offers it") {
  EstimateRequest r = settled("Qwen/Qwen2.5-7B-Instruct-AWQ", "hf-trainer", Method::Full).request;
  r.cluster = parse_gpus("1xH100");
  const auto mistake = recipe_mistake(r.recipe, r.model, r.cluster);
  REQUIRE(mistake);
  CHECK(std::string(mistake->what()).find("a quantised base cannot be trained itself") != std::string::npos);
}
