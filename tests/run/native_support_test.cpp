#include "run/native_job.h"

#include <functional>

#include <doctest/doctest.h>

#include "base/error.h"
#include "models/adapter_kind.h"
#include "run/files/error_text.h"
#include "run/native_fixture.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

struct Asked {
  ModelSpec model = odd_llama();
  Recipe recipe = recipe_of({});
  Strategy strategy;
};

struct Refusal {
  const char* mentions;
  std::function<void(Asked&)> change;
};

void adapter(Asked& a) { a.recipe.method = Method::Lora; }

const std::vector<Refusal> kRefusals{
    {"family gpt2", [](Asked& a) { a.model.family = "gpt2"; }},
    {"family llama", [](Asked& a) { a.model.norm = NormKind::LayerNorm; }},
    {"family llama", [](Asked& a) { a.model.mlp = MlpKind::Plain; }},
    {"family llama", [](Asked& a) { a.model.position = PositionKind::Alibi; }},
    {"family llama", [](Asked& a) { a.model.residual = ResidualKind::ParallelOneNorm; }},
    {"family llama", [](Asked& a) { a.model.norm_placement = NormPlacement::Sandwich; }},
    {"family llama", [](Asked& a) { a.model.activation = "gelu"; }},
    {"family llama", [](Asked& a) { a.model.moe.num_experts = 8; }},
    {"family llama", [](Asked& a) { a.model.has_fused_qkv = true; }},
    {"family llama", [](Asked& a) { a.model.has_fused_gate_up = true; }},
    {"kernels of Mamba-2 and linear-attention layers",
     [](Asked& a) { a.model.mixers.assign(std::size_t(a.model.num_hidden_layers), Mixer::DeltaNet); }},
    {"family smollm3", [](Asked& a) { a.model.family = "smollm3"; }},
    {"rotary scaling 'yarn'", [](Asked& a) { a.model.rope.type = "yarn"; }},
    {"sliding window", [](Asked& a) { a.model.sliding_window = 8, a.model.sliding_layers = 1; }},
    {"dropout in the model", [](Asked& a) { a.model.attention_dropout = 0.1; }},
    {"dropout in the model", [](Asked& a) { a.model.residual_dropout = 0.1; }},
    {"dropout in the model", [](Asked& a) { a.model.mlp_dropout = 0.1; }},
    {"vision tower", [](Asked& a) { a.model.vision.hidden_size = 64, a.model.vision.num_layers = 2; }},
    {"quantised checkpoint", [](Asked& a) { a.model.checkpoint.method = "gptq"; }},
    {"vocabulary of 101 that tp 2 does not divide",
     [](Asked& a) { a.strategy = strategy_of({.ranks = 2, .model = even_llama(2), .tp = 2}); }},
    {"offload of optimizer or weights beside tp",
     [](Asked& a) {
       a.model = even_llama(2);
       a.strategy = strategy_of({.ranks = 2, .model = a.model, .tp = 2});
       a.recipe.offload.optimizer = OffloadTarget::Cpu;
     }},
    {"training of some parameters alone", [](Asked& a) { a.recipe.trained = {"lm_head"}; }},
    {"fake quantisers", [](Asked& a) { a.recipe.qat = Qat::Int4; }},
    {"experts as linears", [](Asked& a) { adapter(a), a.recipe.lora.linear_experts = true; }},
    {"cuDNN", [](Asked& a) { a.recipe.attention = AttentionKernel::Cudnn; }},
    {"FlashAttention 3", [](Asked& a) { a.recipe.attention = AttentionKernel::Flash3; }},
    {"torch.compile", [](Asked& a) { a.recipe.torch_compile = true; }},
    {"attention within groups", [](Asked& a) { a.recipe.attention_groups = 4; }},
    {"lion", [](Asked& a) { a.recipe.optimizer = "lion"; }},
    {"adafactor", [](Asked& a) { a.recipe.optimizer = "adafactor"; }},
    {"sgd", [](Asked& a) { a.recipe.optimizer = "sgd"; }},
    {"muon", [](Asked& a) { a.recipe.optimizer = "muon"; }},
    {"paged-adamw", [](Asked& a) { a.recipe.optimizer = "paged-adamw"; }},
    {"fp16", [](Asked& a) { a.recipe.precision = Precision::Fp16Mixed; }},
    {"int8", [](Asked& a) { adapter(a), a.recipe.quant.kind = BaseQuant::Int8; }},
    {"GPTQ", [](Asked& a) { adapter(a), a.recipe.quant.kind = BaseQuant::Gptq4; }},
    {"NF4 blocks", [](Asked& a) { adapter(a), a.recipe.quant.kind = BaseQuant::Nf4, a.recipe.quant.block_size = 128; }},
    {"base weights of",
     [](Asked& a) { adapter(a), a.recipe.precision = Precision::Bf16Mixed, a.recipe.lora.base_dtype = Dtype::F32; }},
    {"base weights of",
     [](Asked& a) { adapter(a), a.recipe.precision = Precision::Fp32, a.recipe.lora.base_dtype = Dtype::BF16; }},
    {"adapters of", [](Asked& a) { adapter(a), a.recipe.lora.adapter_dtype = Dtype::F16; }},
    {"adapter dropout", [](Asked& a) { adapter(a), a.recipe.lora.dropout = 0.1; }},
    {"DoRA", [](Asked& a) { adapter(a), a.recipe.lora.is_dora = true; }},
    {"modules", [](Asked& a) { adapter(a), a.recipe.lora.modules_to_save = {"lm_head"}; }},
    {"eager", [](Asked& a) { a.recipe.attention = AttentionKernel::Eager; }},
    {"chunked", [](Asked& a) { a.recipe.loss = LossKernel::Chunked; }},
    {"fused loss", [](Asked& a) { a.recipe.loss = LossKernel::Fused; }},
    {"inside backward", [](Asked& a) { a.recipe.optimizer_in_backward = true; }},
    {"loss of odds ratio preference optimisation (sft, dpo, reward, grpo, dapo)",
     [](Asked& a) { a.recipe.objective.method = "orpo"; }},
    {"reference that waits on the host",
     [](Asked& a) { a.recipe.objective.method = "dpo", a.recipe.objective.reference = Reference::Host; }},
    {"fp8", [](Asked& a) { a.recipe.fp8_matmul = true; }},
    {"NVMe", [](Asked& a) { a.recipe.offload.optimizer = OffloadTarget::Nvme; }},
    {"quantised weights",
     [](Asked& a) { adapter(a), a.recipe.quant.kind = BaseQuant::Nf4, a.recipe.offload.params = OffloadTarget::Cpu; }},
    {"optimizer on the device",
     [](Asked& a) {
       a.recipe.offload.params = OffloadTarget::Cpu, a.strategy.engine = ShardingEngine::Zero,
       a.strategy.mesh = {{Axis::DpShard, 2}};
     }},
    {"sharded over two GPUs", [](Asked& a) { a.recipe.offload.params = OffloadTarget::Cpu; }},
    {"wrapping by size", [](Asked& a) { a.strategy.wrap = WrapPolicy::Size; }},
    {"tied head", [](Asked& a) {
       a.model.tie_word_embeddings = true, a.strategy.mesh = {{Axis::Pp, 2}};
     }}};

void check_native(const ModelSpec& model, const Recipe& recipe, const Strategy& strategy) {
  require_native(model, recipe, strategy, resolve_numerics(recipe, find_framework("native"), strategy.engine));
}

}  // namespace

TEST_CASE("native support: what the executor lacks is named, with an engine that has it") {
  for (const Refusal& refusal : kRefusals) {
    Asked asked;
    refusal.change(asked);
    const std::string text = error_text<InputError>([&] { check_native(asked.model, asked.recipe, asked.strategy); });
    check_mentions(text, refusal.mentions);
    check_mentions(text, "accelerate");
  }
}

TEST_CASE("native support: every kind of adapters but LoRA is refused by its name") {
  int num_kinds = 0;
  for (const AdapterKind& kind : adapter_kinds()) {
    if (kind.is_lora()) continue;
    CAPTURE(kind.name);
    Asked asked;
    adapter(asked), asked.recipe.lora.kind = kind.name;
    const std::string text = error_text<InputError>([&] { check_native(asked.model, asked.recipe, asked.strategy); });
    check_mentions(text, "the native executor has no " + kind.title);
    ++num_kinds;
  }
  CHECK(num_kinds > 5);
}

TEST_CASE("native support: the families, recipes and strategies that it has are not refused") {
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3"}) {
    Asked asked;
    asked.model.family = family;
    CHECK_NOTHROW(check_native(asked.model, asked.recipe, asked.strategy));
  }
  for (const NativeCase& c : every_case()) {
    CAPTURE(c.name());
    CHECK_NOTHROW(check_native(c.model, recipe_of(c), strategy_of(c)));
  }
  Asked whole_window, short_window, tied_adapter, dropout_unused;
  whole_window.model.sliding_window = 8, whole_window.model.sliding_layers = 3;   // in every layer
  short_window.model.sliding_window = 16, short_window.model.sliding_layers = 1;  // no sequence is longer
  tied_adapter.model.tie_word_embeddings = true, tied_adapter.strategy.mesh = {{Axis::Pp, 2}}, adapter(tied_adapter);
  dropout_unused.recipe.lora.dropout = 0.1;  // no adapters
  for (const Asked& a : {whole_window, short_window, tied_adapter, dropout_unused})
    CHECK_NOTHROW(check_native(a.model, a.recipe, a.strategy));
}
