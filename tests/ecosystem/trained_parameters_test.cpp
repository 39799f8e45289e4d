// Parameters and modules that trainers' files choose, once the model is known.
#include <doctest/doctest.h>

#include "config_texts.h"
#include "ecosystem/module_targets.h"
#include "ecosystem/trained_parameters.h"
#include "models/catalogue.h"
#include "models/trained_model.h"

namespace gpuplan {

using namespace test;

namespace {

constexpr const char* kAxolotl = "base_model: a\nmicro_batch_size: 1\nsequence_len: 512\n";
constexpr const char* kFactory = "cutoff_len: 512\nfinetuning_type: freeze\n";
constexpr const char* kSwift = "model: a\nmax_length: 512\ntuner_type: full\n";
constexpr const char* kTune =
    "tokenizer:\n  _component_: torchtune.models.llama3.llama3_tokenizer\ncheckpointer:\n  _component_: x\n";

using Names = std::vector<std::string>;

/// The question of a file about a model of the catalogue.
EstimateRequest settled(const std::string& text, const char* model, std::vector<std::string>* notes = nullptr) {
  ConfigReading reading = reading_of({text});
  EstimateRequest request = reading.request;
  request.model = load_model(model).spec;
  std::vector<std::string> own;
  settle_vision(reading, request);
  settle_targets(request, own);
  settle_trained(reading, request, own);
  if (notes) *notes = own;
  return request;
}

Names trained(const std::string& text, const char* model) { return settled(text, model).recipe.trained; }

std::string refusal(const std::string& text, const char* model) {
  try {
    settled(text, model);
  } catch (const InputError& error) { return error.what(); }
  return "";
}

std::int64_t trainable(const EstimateRequest& r) { return prepare(r.model, r.recipe, *r.recipe.framework).trainable; }

}  // namespace

TEST_CASE("axolotl's unfrozen_parameters: expressions from the beginning of a name, dots as they stand") {
  const std::string list = std::string(kAxolotl) + "unfrozen_parameters:\n";
  CHECK(trained(list + "- ^lm_head.weight$\n- model.layers.3[01].mlp\n", "llama-3.1-8b") ==
        Names{"model.layers.30-31.mlp.down_proj", "model.layers.30-31.mlp.gate_proj", "model.layers.30-31.mlp.up_proj",
              "lm_head"});
  CHECK(trained(list + "- ^model.embed_tokens.weight$[:32000]\n- model.layers.[0-3].\n", "llama-3.1-8b") ==
        Names{"model.embed_tokens", "model.layers.0-3"});
  CHECK(trained(list + "- model.*\n- lm_head\n", "llama-3.1-8b").empty());  // all of it
  CHECK(contains(refusal(list + "- layers.3\n", "llama-3.1-8b"), "nothing would be trained"));
  CHECK(contains(refusal(list + "- model.layers.(\n", "llama-3.1-8b"), "is not read"));
  // with adapters, whose names begin otherwise, axolotl freezes those too
  CHECK(contains(refusal(list + "- ^model.layers\nadapter: lora\nlora_r: 8\nlora_alpha: 16\nlora_target_linear: true\n",
                         "llama-3.1-8b"),
                 "freezes them too"));
  std::vector<std::string> notes;
  settled(list + "- lm_head\n- model.wings\n", "llama-3.1-8b", &notes);
  REQUIRE(notes.size() == 1);
  CHECK(contains(notes.front(), "model.wings names no parameter"));
}

TEST_CASE("LLaMA-Factory's freeze: the last layers, the first, or every so many, and modules of them") {
  const std::string freeze = kFactory;
  CHECK(trained(freeze, "llama-3.1-8b") == Names{"model.layers.30-31"});
  CHECK(trained(freeze + "freeze_trainable_layers: -3\n", "llama-3.1-8b") == Names{"model.layers.0-2"});
  CHECK(trained(freeze + "freeze_trainable_layers: 8\nuse_llama_pro: true\n", "llama-3.1-8b") ==
        Names{"model.layers.3,7,11,15,19,23,27,31"});
  CHECK(trained(freeze + "freeze_trainable_modules: input_layernorm\nfreeze_extra_modules: embed_tokens,lm_head\n",
                "llama-3.1-8b") == Names{"model.embed_tokens", "model.layers.30-31.input_layernorm", "lm_head"});
  CHECK(contains(refusal(freeze + "freeze_trainable_layers: 5\nuse_llama_pro: true\n", "llama-3.1-8b"), "divisible"));
  CHECK(trained("cutoff_len: 512\nfinetuning_type: full\nfreeze_trainable_layers: 8\n", "llama-3.1-8b").empty());
  // what is frozen stays in 16 bit there: its weights are half as large
  const EstimateRequest r = settled(freeze + "bf16: true\n", "llama-3.1-8b");
  const DtypePolicy n = resolve_numerics(r.recipe, *r.recipe.framework, ShardingEngine::Local, &r.model);
  CHECK(n.weight == Dtype::F32);
  CHECK(n.frozen == Dtype::BF16);
  CHECK(n.residual == Dtype::BF16);
}

TEST_CASE("ms-swift freezes a share from the bottom, then names, and trains others again") {
  const std::string full = kSwift;
  const EstimateRequest half = settled(full + "freeze_parameters_ratio: 0.5\n", "llama-3.1-8b");
  CHECK(trainable(half) * 2 >= 8'030'261'248);
  CHECK(trainable(half) * 2 < 8'030'261'248 + 2 * 60'000'000);  // the last that is frozen is a matrix of the middle
  CHECK(trained(full + "freeze_parameters_ratio: 1.0\ntrainable_parameters: lm_head\n", "llama-3.1-8b") ==
        Names{"lm_head"});
  CHECK(trained(full + "freeze_parameters_regex: '^(?!lm_head)'\ntrainable_parameters_regex: norm\n", "llama-3.1-8b") ==
        Names{"model.layers.*.input_layernorm", "model.layers.*.post_attention_layernorm", "model.norm", "lm_head"});
}

TEST_CASE("torchtune trains the layers between text and tower without the decoder") {
  const std::string parts = std::string(kTune) +
                            "model:\n  _component_: torchtune.models.llama3_2_vision.llama3_2_vision_11b\n"
                            "  decoder_trainable: false\n  encoder_trainable: ENCODER\n  fusion_trainable: true\n";
  const auto with = [&](const char* encoder) {
    std::string text = parts;
    text.replace(text.find("ENCODER"), 7, encoder);
    return settled(text, "llama-3.2-11b-vision");
  };
  const EstimateRequest fused = with("false"), all = with("true");
  CHECK(fused.recipe.images.train == TrainVision::Projector);
  CHECK(all.recipe.images.train == TrainVision::All);
  EstimateRequest whole = all;
  whole.recipe.trained.clear();
  CHECK(trainable(fused) < trainable(all));
  CHECK(trainable(all) < trainable(whole));
  // the eight layers that attend to images are 1.75 B of the language model's 9.78
  CHECK(trainable(fused) > 1'500'000'000);
  CHECK(trainable(fused) < 2'000'000'000);
}

TEST_CASE("adapters by an expression mean the modules that it matches whole") {
  const std::string lora = std::string(kAxolotl) + "adapter: lora\nlora_r: 8\nlora_alpha: 16\nlora_target_modules: ";
  const auto of = [&](const std::string& expression, const char* model) {
    return settled(lora + "'" + expression + "'\n", model).recipe;
  };
  const Recipe text =
      of(R"(model.language_model.layers.[\d]+.(mlp|cross_attn|self_attn).(up|down|q)_proj)", "qwen2.5-vl-7b");
  CHECK(text.lora.targets == Names{"q_proj", "up_proj", "down_proj"});
  CHECK(text.images.train == TrainVision::No);
  CHECK(text.trained.empty());
  const Recipe some = of(R"(.*\.layers\.(3|7)\.self_attn\.(q|v)_proj)", "llama-3.1-8b");
  CHECK(some.lora.targets == Names{"q_proj", "v_proj"});
  CHECK(some.trained == Names{"model.layers.3,7.self_attn.q_proj", "model.layers.3,7.self_attn.v_proj"});
  CHECK(of(R"(^(?!.*lm_head).*(q_proj|o_proj)$)", "llama-3.1-8b").trained.empty());
  CHECK(contains(refusal(lora + "'model.layers.()_wings'\n", "llama-3.1-8b"), "means no linear module"));
  CHECK(contains(refusal(lora + "['q_proj', '.*up_proj']\n", "llama-3.1-8b"), "in a list"));
}

TEST_CASE("adapters of chosen layers, and of experts' parameters") {
  const std::string lora =
      std::string(kAxolotl) + "adapter: lora\nlora_r: 8\nlora_alpha: 16\nlora_target_modules: [q_proj]\n";
  CHECK(trained(lora + "peft_layers_to_transform: [0, 1, 5]\n", "llama-3.1-8b") == Names{"model.layers.0-1,5"});
  const std::string experts = lora + "lora_target_parameters: [mlp.experts.gate_up_proj, mlp.experts.down_proj]\n";
  EstimateRequest r = settled(experts, "qwen3-30b-a3b");
  r.recipe.framework = resolve_framework("axolotl", {.given = {}, .date = {}}, r.model.model_type);
  // q: 48 layers of 8 (2048 + 4096); experts: 48 of 128 of 8 (2048 + 1536) and of 8 (768 + 2048)
  CHECK(trainable(r) == 48 * 8 * (2048 + 4096) + 48 * 128 * 8 * ((2048 + 1536) + (768 + 2048)));
}

TEST_CASE("fake quantisers by the words of torchtune and axolotl") {
  const std::string tune = std::string(kTune) +
                           "model:\n  _component_: torchtune.models.llama3.llama3_8b\nquantizer:\n"
                           "  _component_: torchtune.training.quantization.";
  CHECK(reading_of({tune + "Int8DynActInt4WeightQATQuantizer\n  groupsize: 256\n"}).request.recipe.qat ==
        Qat::Int8Int4);
  CHECK(contains(error_of({tune + "Int8DynActInt4WeightQuantizer\n"}), "is not modelled"));
  const std::string qat = std::string(kAxolotl) + "qat:\n  weight_dtype: ";
  CHECK(reading_of({qat + "int4\n  activation_dtype: int8\n"}).request.recipe.qat == Qat::Int8Int4Grouped);
  CHECK(reading_of({qat + "nvfp4\n  activation_dtype: nvfp4\n"}).request.recipe.qat == Qat::Nvfp4);
  CHECK(contains(error_of({qat + "int8\n"}), "torchao trains no weights in int8"));
  CHECK(contains(error_of({qat + "int4\n  quantize_embedding: true\n"}), "fake quantisers of the embedding"));
}

}  // namespace gpuplan
