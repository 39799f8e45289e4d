// SmolLM3: Llama's tensors. Every fourth layer has no rotary embedding, which changes no tensor.
// Source of defaults: transformers SmolLM3Config.
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec, {.num_key_value_heads = 4, .max_position_embeddings = 32768, .tie_word_embeddings = true});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
  spec.has_mlp_bias = config.optional_flag("mlp_bias").value_or(false);
  read_optional_window(config, spec, 0);
}

void write(const ModelSpec& spec, nlohmann::json& config) {
  write_decoder(spec, config);
  write_optional_window(spec, config);
  config["hidden_act"] = hf_activation(spec.activation);
  config["attention_bias"] = spec.has_qkv_bias;
  config["mlp_bias"] = spec.has_mlp_bias;
}

}  // namespace

constinit const Family kSmolLm3{.name = "smollm3",
                                .model_type = "smollm3",
                                .architecture = "SmolLM3ForCausalLM",
                                .read = read,
                                .write = write,
                                .list = pre_norm_weights};

}  // namespace gpuplan
