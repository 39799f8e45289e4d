// Qwen 3, dense: no biases, but a norm per head on q and k; heads of 128 whatever the width.
// Source of defaults: transformers Qwen3Config.
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kDefaultFullLayers = 28;  // max_window_layers

void read(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec, {.num_key_value_heads = 32, .head_dim = 128, .max_position_embeddings = 32768});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
  spec.qk_norm = QkNorm::PerHead;
  read_optional_window(config, spec, kDefaultFullLayers);
}

void write(const ModelSpec& spec, nlohmann::json& config) {
  write_decoder(spec, config);
  write_optional_window(spec, config);
  config["hidden_act"] = hf_activation(spec.activation);
  config["attention_bias"] = spec.has_qkv_bias;
}

}  // namespace

constinit const Family kQwen3{.name = "qwen3",
                              .model_type = "qwen3",
                              .architecture = "Qwen3ForCausalLM",
                              .is_executable = true,
                              .read = read,
                              .write = write,
                              .list = pre_norm_weights};

}  // namespace gpuplan
