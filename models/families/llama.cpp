// Llama 1 to 3.3, and what was published in its form: Code Llama, TinyLlama, SmolLM2, Yi, DeepSeek LLM, Falcon 3.
// Source of defaults: transformers LlamaConfig.
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec, {});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
  spec.has_mlp_bias = config.optional_flag("mlp_bias").value_or(false);
}

void write(const ModelSpec& spec, nlohmann::json& config) {
  write_decoder(spec, config);
  config["hidden_act"] = hf_activation(spec.activation);
  config["attention_bias"] = spec.has_qkv_bias;
  config["mlp_bias"] = spec.has_mlp_bias;
}

}  // namespace

constinit const Family kLlama{.name = "llama",
                              .model_type = "llama",
                              .architecture = "LlamaForCausalLM",
                              .is_executable = true,
                              .read = read,
                              .write = write,
                              .list = pre_norm_weights};

}  // namespace gpuplan
