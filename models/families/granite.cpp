// Granite and PowerLM: Llama's tensors; embedding, residual branches and logits are scaled by constants.
// Source of names and defaults: transformers GraniteConfig, modeling_granite.py.
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec, {.num_attention_heads = 32, .vocab_size = 32000});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
  spec.has_mlp_bias = config.optional_flag("mlp_bias").value_or(false);
  spec.scales_embedding = true;  // by embedding_multiplier, whatever it is
}

void write(const ModelSpec& spec, nlohmann::json& config) {
  write_decoder(spec, config);
  config["hidden_act"] = hf_activation(spec.activation);
  config["attention_bias"] = spec.has_qkv_bias;
  config["mlp_bias"] = spec.has_mlp_bias;
}

}  // namespace

constinit const Family kGranite{.name = "granite",
                                .model_type = "granite",
                                .architecture = "GraniteForCausalLM",
                                .read = read,
                                .write = write,
                                .list = pre_norm_weights};

}  // namespace gpuplan
