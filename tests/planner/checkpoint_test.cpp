// Checkpoints that are quantised already, as trainers load them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.h"
#include "cluster/gpu_list.h"
#include "models/catalogue.h"
#include "models/framework.h"
#include "models/numerics.h"
#include "models/stack.h"
#include "planner/job.h"
#include "planner/state_sizes.h"

using namespace gpuplan;

namespace {

StackVersions versions_of(std::string_view list) { return list.empty() ? StackVersions{} : parse_stack_versions(list); }

struct Settled {
  EstimateRequest request;
  std::vector<std::string> notes;
};

Settled settled(const char* model, const char* framework, Method method = Method::Lora, const char* versions = "") {
  Settled s{.request = {.model = load_model(model).spec}, .notes = {}};
  s.request.recipe.method = method;
  s.request.recipe.framework = resolve_framework(framework, {.given = versions_of(versions), .date = {}});
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
  // compressed-tensors unpacks a model in its first forward, for good since its 0.9.3
  const char* const w4a16 = "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16";
  CHECK(settled(w4a16, "hf-trainer").request.recipe.quant.kind == BaseQuant::None);
  CHECK(settled(w4a16, "hf-trainer", Method::Lora, "transformers=4.50").request.recipe.quant.kind ==
        BaseQuant::Compressed);
  CHECK(settled("nvidia/Qwen3-8B-NVFP4", "hf-trainer").notes.at(0) ==
        "the checkpoint is quantised (modelopt in 4 bits): planned as a copy in 16 bit, since hf-trainer is not known "
        "to read it");
  for (const char* framework : {"deepspeed", "lightning"})
    CHECK(settled("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", framework).request.recipe.quant.kind == BaseQuant::Gptq4);
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

namespace {

DtypePolicy of_qlora(const char* framework, const char* versions = "") {
  Recipe recipe;
  recipe.method = Method::Qlora;
  recipe.quant.kind = BaseQuant::Nf4;
  return resolve_numerics(recipe, resolve_framework(framework, {.given = versions_of(versions), .date = {}}),
                          ShardingEngine::Local);
}

}  // namespace

TEST_CASE("beside a 4-bit base, trainers leave in fp32 what PEFT's preparation made fp32, or take it back") {
  const DtypePolicy hf = of_qlora("hf-trainer");
  CHECK((hf.ends == Dtype::F32 && hf.frozen == Dtype::F32 && hf.residual == Dtype::F32 && hf.adapter == Dtype::F32));
  const DtypePolicy axolotl = of_qlora("axolotl");  // norms and embeddings back in 16 bit
  CHECK((axolotl.ends == Dtype::BF16 && axolotl.frozen == Dtype::F32 && axolotl.residual == Dtype::BF16));
  const DtypePolicy trl26 = of_qlora("trl", "trl=0.26");  // embeddings alone
  CHECK((trl26.ends == Dtype::BF16 && trl26.frozen == Dtype::F32 && trl26.residual == Dtype::F32));
  CHECK(trl26.adapter == Dtype::F32);
  const DtypePolicy trl27 = of_qlora("trl", "trl=0.27");  // no preparation
  CHECK((trl27.ends == Dtype::BF16 && trl27.frozen == Dtype::BF16 && trl27.residual == Dtype::BF16));
  CHECK(trl27.adapter == Dtype::BF16);
}

TEST_CASE("stacked experts of a QLoRA are held in fp32 after PEFT's preparation, in 4 bits by axolotl's option") {
  // axolotl's docs/expert_quantization.qmd: about 127 GiB reserved, and about 23
  Recipe recipe;
  recipe.method = Method::Qlora;
  recipe.quant.kind = BaseQuant::Nf4;
  const auto frozen_gib = [&] {
    EstimateRequest r{.model = load_model("glm-4.7-flash").spec, .recipe = recipe};
    r.recipe.framework = find_framework("axolotl").name;
    settle_stack(r);
    const TrainedModel model = prepare(r.model, r.recipe, *r.recipe.framework);
    const DtypePolicy numerics = resolve_numerics(r.recipe, *r.recipe.framework, ShardingEngine::Local);
    return double(model_state(model, numerics, r.recipe, {}).frozen.count) / double(1 << 30);
  };
  const double usual = frozen_gib();
  recipe.quant.quantises_experts = true;
  const double option = frozen_gib();
  CHECK(usual > 100);
  CHECK(usual < 127);
  CHECK(option < 23);
}
