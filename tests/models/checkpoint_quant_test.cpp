#include "models/checkpoint_quant.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/catalogue.h"
#include "models/framework.h"
#include "models/hf_config.h"
#include "models/trained_model.h"

using namespace gpuplan;
using nlohmann::json;

namespace {

/// A Llama whose config has this quantization_config.
ModelSpec quantised(const char* quantization_config) {
  json config = json::parse(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256,
    "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512, "vocab_size": 1000})");
  config["quantization_config"] = json::parse(quantization_config);
  return parse_hf_config(config, "config.json");
}

std::int64_t bytes_of_linear(const ModelSpec& model, std::int64_t in, std::int64_t out) {
  return quantised_bytes(in * out, out, *model.checkpoint.base).count;
}

TrainedModel with_adapters(const ModelSpec& model) {
  Recipe recipe;
  recipe.method = Method::Qlora;
  recipe.quant = *model.checkpoint.base;
  return prepare(model, recipe, find_framework("hf-trainer"));
}

/// Weights of the layers that are held in few bits.
std::int64_t num_quantised(const TrainedModel& model) {
  std::int64_t sum = 0;
  model.each_state([&](const StateList& list, std::int64_t times) {
    for (const StateTensor& t : list) sum += t.kind == StateKind::Quantised ? times : 0;
  });
  return sum;
}

}  // namespace

TEST_CASE("bytes of packed linears are those of the tensors that their libraries make") {
  constexpr std::int64_t kIn = 3584, kOut = 18944;
  // AWQ: qweight [in, out / 8] and qzeros [in / 128, out / 8] in int32, scales [in / 128, out] in fp16
  constexpr std::int64_t kAwq = kIn * kOut / 8 * 4 + kIn / 128 * kOut / 8 * 4 + kIn / 128 * kOut * 2;
  CHECK(bytes_of_linear(quantised(R"({"quant_method": "awq", "bits": 4, "group_size": 128})"), kIn, kOut) == kAwq);
  CHECK(bytes_of_linear(quantised(R"({"quant_method": "gptq", "bits": 4})"), kIn, kOut) == kAwq);  // without g_idx
  CHECK(bytes_of_linear(quantised(R"({"quant_method": "gptq", "bits": 8, "group_size": -1})"), kIn, kOut) ==
        kIn * kOut + 3 * kOut);
  // AQLM 1x16: codes [out, in / 8] in int16, a codebook [65536, 8] and scales [out] in fp16
  CHECK(bytes_of_linear(quantised(R"({"quant_method": "aqlm"})"), kIn, kOut) ==
        kIn * kOut / 8 * 2 + 65536 * 8 * 2 + kOut * 2);
  // HQQ: scale and zero in 16 bit per group of 64
  CHECK(bytes_of_linear(quantised(R"({"quant_method": "hqq"})"), kIn, kOut) == kIn * kOut / 2 + kIn * kOut / 64 * 4);
  // compressed-tensors: weight_packed in int32, weight_scale per group of 32 in 16 bit
  const char* const w4a16 = R"({"quant_method": "compressed-tensors", "ignore": ["lm_head"], "config_groups": {
    "group_0": {"weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}}}})";
  CHECK(bytes_of_linear(quantised(w4a16), kIn, kOut) == kIn * kOut / 2 + kIn * kOut / 32 * 2);
}

TEST_CASE("bitsandbytes' checkpoints say block, nesting and storage") {
  const QuantSpec four = *quantised(R"({"load_in_4bit": true, "bnb_4bit_quant_type": "nf4"})").checkpoint.base;
  CHECK(four.kind == BaseQuant::Nf4);
  CHECK_FALSE(four.double_quant);
  CHECK(four.storage_dtype == Dtype::U8);
  CHECK(quantised(R"({"quant_method": "bitsandbytes", "load_in_8bit": true})").checkpoint.base->kind ==
        BaseQuant::Int8);
}

TEST_CASE("modules that a checkpoint leaves in 16 bit are not quantised, of single layers too") {
  CHECK(num_quantised(with_adapters(quantised(R"({"load_in_4bit": true})"))) == 4 * 7);
  const TrainedModel dynamic = with_adapters(quantised(
      R"({"load_in_4bit": true, "llm_int8_skip_modules": ["lm_head", "model.layers.1.mlp", "model.layers.3.self_attn",
          "layers.3.mlp.up_proj"]})"));
  CHECK(num_quantised(dynamic) == 4 * 7 - 3 - 4 - 1);
  CHECK(dynamic.weights.kinds.size() == 3);  // layers 0 and 2 are alike
  CHECK(dynamic.weights.total_elements() == list_weights(dynamic.spec).total_elements());
  CHECK(num_quantised(with_adapters(quantised(R"({"load_in_4bit": true, "llm_int8_skip_modules": ["o_proj"]})"))) ==
        4 * 6);
  CHECK(num_quantised(with_adapters(quantised(R"({"load_in_4bit": true, "llm_int8_skip_modules": ["proj"]})"))) ==
        4 * 7);  // no module's name
}

TEST_CASE("names of copies say their format") {
  const auto method = [](std::string_view name) { return load_model(name).spec.checkpoint.method; };
  CHECK(method("unsloth/Llama-3.2-1B-Instruct-bnb-4bit") == "bitsandbytes");
  CHECK(method("Qwen/Qwen2.5-7B-Instruct-AWQ") == "awq");
  CHECK(method("Qwen/Qwen3-8B-FP8") == "fp8");
  CHECK(method("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16") == "compressed-tensors");
  CHECK(load_model("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8").spec.checkpoint.base->bits() == 8);
  CHECK(method("Qwen/Qwen2.5-7B-Instruct").empty());
  CHECK(method("gpt-oss-20b") == "mxfp4");  // as it was published
  CHECK(method("gpt-oss-20b-BF16").empty());
  CHECK(method("nvidia/Qwen3-8B-NVFP4") == "modelopt");
  CHECK(method("unsloth/Qwen3-8B-GGUF") == "gguf");
  CHECK(method("Intel/Qwen3-8B-int4-AutoRound") == "auto-round");
  CHECK(method("pytorch/Qwen3-8B-INT4") == "int4");
  CHECK(load_model("nvidia/Qwen3-8B-NVFP4").spec.checkpoint.base->kind == BaseQuant::Nvfp4);
}

TEST_CASE("NVFP4 of Model Optimizer has 4 bits and a scale of 8 bits for 16 weights; its FP8 is not packed") {
  const CheckpointQuant fp4 =
      quantised(R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]})").checkpoint;
  CHECK(fp4.base->kind == BaseQuant::Nvfp4);
  CHECK(quantised_bytes(1600, 1, *fp4.base).count == 800 + 100);
  CHECK(keeps_dtype(fp4, "lm_head"));
  CHECK_FALSE(quantised(R"({"quant_method": "modelopt", "quant_algo": "FP8"})").checkpoint.base);
}

TEST_CASE("of several groups of a checkpoint the one with the most bits is counted") {
  const auto bits = [](const std::string& config) { return quantised(config.c_str()).checkpoint.base->bits(); };
  CHECK(bits(R"({"quant_method": "compressed-tensors", "config_groups": {
    "a": {"weights": {"num_bits": 4, "group_size": 128}}, "b": {"weights": {"num_bits": 8, "group_size": 128}}}})") ==
        8);
  CHECK(bits(R"({"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*down_proj": {"bits": 8}}})") == 8);
  CHECK(bits(R"({"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*down_proj": {"bits": 2}}})") == 4);
  CHECK(num_quantised(with_adapters(quantised(
            R"({"quant_method": "gptq", "bits": 4, "dynamic": {"-:.*o_proj$": {}, "+:.*up_proj": {"bits": 8}}})"))) ==
        4 * 6);
}

TEST_CASE("a config keeps its quantization_config, and a wrong one is told") {
  const ModelSpec model = quantised(R"({"quant_method": "gptq", "bits": 8, "group_size": 32})");
  CHECK(parse_hf_config(to_hf_config(model), "plan.json").checkpoint == model.checkpoint);
  CHECK_THROWS_WITH_AS(quantised(R"({"quant_method": "gptq", "bits": 400})"), doctest::Contains("bits"), InputError);
  CHECK(quantised("{}").checkpoint.method.empty());
  CHECK(quantised(R"({"quant_method": "vptq"})").checkpoint.method == "vptq");
  CHECK_FALSE(quantised(R"({"quant_method": "vptq"})").checkpoint.base);
}
