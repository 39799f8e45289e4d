// Qwen 1.5, 2 and 2.5, dense: Llama's tensors with biases on q, k and v, always.
// Source of defaults: transformers Qwen2Config.
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kDefaultFullLayers = 28;  // max_window_layers

void read(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec, {.num_key_value_heads = 32, .max_position_embeddings = 32768});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = true;
  read_optional_window(config, spec, kDefaultFullLayers);
}

void write(const ModelSpec& spec, nlohmann::json& config) {
  write_decoder(spec, config);
  write_optional_window(spec, config);
  config["hidden_act"] = hf_activation(spec.activation);
}

}  // namespace

constinit const Family kQwen2{.name = "qwen2",
                              .model_type = "qwen2",
                              .architecture = "Qwen2ForCausalLM",
                              .is_executable = true,
                              .read = read,
                              .write = write,
                              .list = pre_norm_weights};

}  // namespace gpuplan
