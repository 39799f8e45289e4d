// Falcon-H1: attention and Mamba-2 side by side in every layer, on one norm, then a gated MLP. The multipliers of its
// activations cost time, not memory. Source of names and defaults: transformers FalconH1Config, modeling_falcon_h1.py.
#include "models/families/mixers.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read_falcon_h1(Fields& config, ModelSpec& spec) {
  read_decoder(
      config, spec,
      {.num_attention_heads = 32, .num_key_value_heads = 8, .vocab_size = 128000, .max_position_embeddings = 8192});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
  spec.has_mlp_bias = config.optional_flag("mlp_bias").value_or(false);
  if (config.optional_flag("projectors_bias").value_or(false))
    config.report("projectors_bias", "a bias of the output projection alone is not modelled");
  spec.mixers.assign(std::size_t(spec.num_hidden_layers), Mixer::AttentionAndMamba2);
  const bool expands = config.has("mamba_d_ssm") && !config.find("mamba_d_ssm");  // null: mamba_expand says it
  read_mamba2(
      config, spec,
      expands ? read_expanded_width(config, spec) : config.optional_integer("mamba_d_ssm", kWidthRange).value_or(1024));
  spec.mamba2.has_norm = config.optional_flag("mamba_rms_norm").value_or(false);
}

}  // namespace

constinit const Family kFalconH1{.name = "falcon_h1",
                                 .model_type = "falcon_h1",
                                 .architecture = "FalconH1ForCausalLM",
                                 .read = read_falcon_h1,
                                 .list = list_mamba2_decoder};

}  // namespace gpuplan
