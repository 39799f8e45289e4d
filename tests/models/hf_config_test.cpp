#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/families.h"
#include "models/hf_config.h"
#include "models/weights.h"

using namespace gpuplan;
using nlohmann::json;

namespace {

json llama(const json& changes = json::object()) {
  json config{{"architectures", {"LlamaForCausalLM"}},
              {"model_type", "llama"},
              {"hidden_size", 64},
              {"num_hidden_layers", 2},
              {"num_attention_heads", 4},
              {"intermediate_size", 128},
              {"vocab_size", 100},
              {"max_position_embeddings", 512}};
  config.merge_patch(changes);  // a null removes the field
  return config;
}

std::string error_of(const json& config) {
  try {
    parse_hf_config(config, "config.json");
  } catch (const InputError& error) { return error.what(); }
  return {};
}

void check_error(const json& config, const std::string& part) {
  const std::string error = error_of(config);
  CAPTURE(error);
  CAPTURE(part);
  CHECK(error.find(part) != std::string::npos);
  CHECK(error.starts_with("config.json"));
}

ModelSpec parse(const json& config) { return parse_hf_config(config, "config.json"); }

}  // namespace

TEST_CASE("the defaults of a Llama config are those of transformers") {
  const ModelSpec spec = parse(llama());
  CHECK(spec.num_key_value_heads == 4);
  CHECK(spec.head_dim == 16);
  CHECK_FALSE(spec.tie_word_embeddings);
  CHECK_FALSE(spec.has_qkv_bias);
  CHECK(spec.activation == "silu");
  CHECK(spec.family == "llama");
  CHECK(spec.source == "config.json");
  CHECK(parse(llama({{"attention_bias", true}, {"mlp_bias", true}})).has_o_bias);
  CHECK(parse(llama({{"_name_or_path", "org/tiny-llama"}})).name == "tiny-llama");
}

TEST_CASE("an explicit null means the default, as transformers writes it") {
  json config = llama();
  config["num_key_value_heads"] = nullptr, config["head_dim"] = nullptr, config["rope_scaling"] = nullptr;
  CHECK(parse(config).num_key_value_heads == 4);
  CHECK(parse(config).head_dim == 16);
}

TEST_CASE("a missing field is named") {
  check_error(llama({{"hidden_size", nullptr}}), "config.json: hidden_size: is missing");
}

TEST_CASE("every bad field is reported, not only the first") {
  const std::string error = error_of(
      llama({{"hidden_size", "64"}, {"num_hidden_layers", -1}, {"vocab_size", 1.5}, {"tie_word_embeddings", 1}}));
  for (const char* part :
       {"4 problems", "hidden_size: must be a whole number, found \"64\"",
        "num_hidden_layers: -1 is too small, must be 1 or more", "vocab_size: must be a whole number, found 1.5",
        "tie_word_embeddings: must be true or false, found 1"})
    CHECK_MESSAGE(error.find(part) != std::string::npos, error);
}

TEST_CASE("heads that do not divide are refused, unless the head dimension is stated") {
  check_error(llama({{"num_attention_heads", 5}}), "num_attention_heads: 5 heads do not divide hidden_size 64");
  CHECK(parse(llama({{"num_attention_heads", 5}, {"head_dim", 32}})).q_width() == 160);
  check_error(llama({{"num_attention_heads", 2}, {"hidden_size", 10000}}),
              "2 heads of hidden_size 10000 are wider than 4096 each");
  check_error(llama({{"num_key_value_heads", 3}}), "num_key_value_heads: 3 does not divide the 4 attention heads");
  check_error(llama({{"num_key_value_heads", 0}}), "num_key_value_heads: 0 is too small");
}

TEST_CASE("absurd sizes are refused, and the largest accepted ones do not overflow") {
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size",
                          "max_position_embeddings", "head_dim"}) {
    check_error(llama({{key, 9'000'000'000'000'000'000}}), "is too large");
    check_error(llama({{key, 18'000'000'000'000'000'000u}}), "18000000000000000000 is too large");
    check_error(llama({{key, 0}}), "0 is too small");
  }
  const ModelSpec largest = parse(llama({{"hidden_size", 1 << 18},
                                         {"num_hidden_layers", 1 << 10},
                                         {"num_attention_heads", 1 << 12},
                                         {"intermediate_size", 1 << 20},
                                         {"vocab_size", 1 << 24}}));
  CHECK(list_weights(largest).total_elements() > 0);
  CHECK(list_weights(largest).total_elements() < std::int64_t{1} << 59);  // 16 bytes each stay below 2^63
  check_error(llama({{"num_attention_heads", 4096}, {"head_dim", 4096}}), "4096 heads of 4096 are wider than 262144");
}

TEST_CASE("unknown activations and impossible dropouts are refused") {
  check_error(llama({{"hidden_act", "sillu"}}), "hidden_act: unknown activation 'sillu'");
  check_error(llama({{"attention_dropout", 1.5}}), "attention_dropout: 1.5 is not a probability");
}

TEST_CASE("architectures are refused by name, never guessed") {
  check_error({{"architectures", {"FooForCausalLM"}}, {"model_type", "foo"}},
              "unknown architecture 'FooForCausalLM' (model_type 'foo')");
  check_error({{"architectures", {"FooForCausalLM"}}, {"model_type", "foo"}}, "modelled: llama, mistral");
  check_error(llama({{"architectures", {"LlamaForSequenceClassification"}}}), "llama is modelled as LlamaForCausalLM");
  check_error(llama({{"architectures", {"MistralForCausalLM"}}}),
              "architecture 'MistralForCausalLM' of model_type 'llama' is not modelled");
}

TEST_CASE("model_type and architectures stand in for each other, but one is needed") {
  CHECK(parse(llama({{"architectures", nullptr}})).architecture == "LlamaForCausalLM");
  CHECK(parse(llama({{"model_type", nullptr}})).model_type == "llama");
  check_error(llama({{"architectures", nullptr}, {"model_type", nullptr}}),
              "model_type: is missing, and so is architectures");
  check_error(llama({{"architectures", "LlamaForCausalLM"}}), "architectures: must be a list");
  check_error(llama({{"architectures", json::array()}}), "architectures: must be a list");
  check_error(llama({{"model_type", 3}}), "model_type: must be a text");
}

TEST_CASE("a config that is no object is refused") {
  check_error(json::array({1}), "expected an object");
  check_error("llama", "expected an object");
}

TEST_CASE("the window of Mistral is 4096 unless the config says otherwise") {
  json config =
      llama({{"architectures", {"MistralForCausalLM"}}, {"model_type", "mistral"}, {"num_key_value_heads", 2}});
  CHECK(parse(config).sliding_window == 4096);
  CHECK(parse(config).sliding_layers == 2);
  config["sliding_window"] = nullptr;
  CHECK(parse(config).sliding_window == 0);
  CHECK(parse(config).sliding_layers == 0);
}

TEST_CASE("the window of Qwen counts only when it is used") {
  json config = llama({{"architectures", {"Qwen2ForCausalLM"}},
                       {"model_type", "qwen2"},
                       {"num_key_value_heads", 2},
                       {"sliding_window", 1024},
                       {"max_window_layers", 1},
                       {"use_sliding_window", false}});
  CHECK(parse(config).sliding_window == 0);
  config["use_sliding_window"] = true;
  CHECK(parse(config).sliding_window == 1024);
  CHECK(parse(config).sliding_layers == 1);
  CHECK(parse(config).has_qkv_bias);
  CHECK_FALSE(parse(config).has_o_bias);
}

TEST_CASE("layer_types decide which layers have a window") {
  const json base =
      llama({{"architectures", {"Gemma2ForCausalLM"}}, {"model_type", "gemma2"}, {"num_key_value_heads", 2}});
  json config = base;
  config["layer_types"] = {"full_attention", "full_attention"};
  CHECK(parse(config).sliding_layers == 0);
  config["layer_types"] = {"sliding_attention", "sliding_attention"};
  CHECK(parse(config).sliding_layers == 2);
  config["layer_types"] = {"sliding_attention"};
  check_error(config, "layer_types: must list");
  config["layer_types"] = {"linear_attention", "full_attention"};
  check_error(config, "layer_types: must list");
}

TEST_CASE("windows that follow no rule survive writing and reading") {
  for (const char* type : {"mistral", "qwen2", "qwen3", "smollm3", "gemma2", "gemma3_text", "phi3"})
    for (const int sliding : {0, 1, 3, 7}) {
      CAPTURE(std::string(type));
      CAPTURE(sliding);
      json config = llama({{"architectures", nullptr},
                           {"model_type", type},
                           {"num_hidden_layers", 7},
                           {"num_key_value_heads", 2},
                           {"sliding_window", 77},
                           {"use_sliding_window", true}});
      for (int i = 0; i < 7; ++i)
        config["layer_types"].push_back(i < 7 - sliding ? "full_attention" : "sliding_attention");
      const ModelSpec spec = parse(config);
      CHECK(spec.sliding_layers == sliding);
      ModelSpec again = parse(to_hf_config(spec));
      again.name = spec.name;
      CHECK(again == spec);
    }
}

TEST_CASE("gemma is tied and has heads of 256 by default, and its hidden_act is not what it runs") {
  const ModelSpec spec = parse(llama({{"architectures", {"GemmaForCausalLM"}},
                                      {"model_type", "gemma"},
                                      {"num_key_value_heads", 1},
                                      {"hidden_act", "gelu"}}));
  CHECK(spec.tie_word_embeddings);
  CHECK(spec.head_dim == 256);
  CHECK(spec.activation == "gelu_tanh");
  CHECK(spec.norm == NormKind::GemmaRmsNorm);
  CHECK(spec.scales_embedding);
}

TEST_CASE("gpt2 uses its own names, or the usual ones") {
  const json own{{"architectures", {"GPT2LMHeadModel"}},
                 {"model_type", "gpt2"},
                 {"n_embd", 64},
                 {"n_layer", 2},
                 {"n_head", 4},
                 {"n_positions", 32},
                 {"n_inner", nullptr},
                 {"vocab_size", 100}};
  const json usual{{"model_type", "gpt2"},          {"hidden_size", 64},
                   {"num_hidden_layers", 2},        {"num_attention_heads", 4},
                   {"max_position_embeddings", 32}, {"vocab_size", 100}};
  CHECK(parse(own).intermediate_size == 256);
  CHECK(parse(own).learned_positions == 32);
  CHECK(parse(own).residual_dropout == 0.1);
  CHECK(parse(own).tie_word_embeddings);
  CHECK(list_weights(parse(own)).total_elements() == list_weights(parse(usual)).total_elements());
  json crossed = own;
  crossed["add_cross_attention"] = true;
  check_error(crossed, "cross-attention is not modelled");
  crossed["n_head"] = nullptr;
  check_error(crossed, "n_head: is null");
}

TEST_CASE("a multimodal Gemma 3 without its vision_config is its text_config, with the defaults of the class") {
  // google/gemma-3-4b-pt states only these; the count equals the catalogue's gemma-3-4b-text.
  const ModelSpec spec = parse({{"architectures", {"Gemma3ForConditionalGeneration"}},
                                {"model_type", "gemma3"},
                                {"text_config",
                                 {{"hidden_size", 2560},
                                  {"intermediate_size", 10240},
                                  {"model_type", "gemma3_text"},
                                  {"num_hidden_layers", 34},
                                  {"sliding_window", 1024}}}});
  CHECK(spec.architecture == "Gemma3ForConditionalGeneration");
  CHECK_FALSE(spec.vision.is_present());
  CHECK(spec.vocab_size == 262208);
  CHECK(list_weights(spec).total_elements() == 3'880'263'168);
  check_error({{"architectures", {"Gemma3ForConditionalGeneration"}},
               {"model_type", "gemma3"},
               {"text_config", {{"hidden_size", 0}}}},
              "text_config.hidden_size: 0 is too small");
  check_error({{"architectures", {"Gemma3ForConditionalGeneration"}}, {"model_type", "gemma3"}, {"text_config", 3}},
              "text_config: must be an object {...}, found 3");
}

TEST_CASE("a written config names its class, type and origin") {
  ModelSpec spec = parse(llama());
  spec.id = "org/tiny";
  const json config = to_hf_config(spec);
  CHECK(config["architectures"][0] == "LlamaForCausalLM");
  CHECK(config["model_type"] == "llama");
  CHECK(parse(config).id == "org/tiny");
}

TEST_CASE("a written config has the keys that were read, and no other") {
  // A plan repeats it: nothing of a megabyte that no family reads, and no token that somebody left in the file.
  json stated = llama({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}, {"token", "hf_secret"}}},
                       {"auth_token", "hf_secret"},
                       {"notes", std::string(1 << 20, 'x')}});
  stated["num_key_value_heads"] = nullptr;
  const ModelSpec spec = parse(stated);
  const json written = to_hf_config(spec);
  CHECK_FALSE(written.contains("auth_token"));
  CHECK_FALSE(written.contains("notes"));
  CHECK(written["rope_scaling"] == json{{"rope_type", "linear"}, {"factor", 2.0}});
  CHECK(written.at("num_key_value_heads").is_null());
  CHECK(written["hidden_size"] == stated["hidden_size"]);
  CHECK_FALSE(written.contains("head_dim"));  // it was not stated
  CHECK(to_hf_config(parse(written)) == written);
}

TEST_CASE("texts of a written config stay on their line, and mean what they meant") {
  const json stated = llama({{"architectures", nullptr},
                             {"model_type", "exaone4"},
                             {"num_key_value_heads", 4},
                             {"sliding_window", 16},
                             {"sliding_window_pattern", "L\u202eG"},
                             {"num_hidden_layers", 24}});
  const ModelSpec spec = parse(stated);
  CHECK(to_hf_config(spec)["sliding_window_pattern"] == "L\\u202eG");
  ModelSpec again = parse(to_hf_config(spec));
  again.name = spec.name;
  CHECK(again == spec);
}

TEST_CASE("models of one shape are equal however their configs spell it") {
  CHECK(parse(llama()) == parse(llama({{"num_key_value_heads", 4}, {"mlp_bias", false}})));
  CHECK_FALSE(parse(llama()) == parse(llama({{"mlp_bias", true}})));
}
