// StableLM 3B and StableLM 2: Llama's linears with LayerNorms, a quarter of each head rotated, biases on q, k and v in
// StableLM 2. Source of names and defaults: transformers StableLmConfig, modeling_stablelm.py.
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read_stablelm(Fields& config, ModelSpec& spec) {
  read_decoder(
      config, spec,
      {.num_attention_heads = 32, .num_key_value_heads = 32, .vocab_size = 50304, .max_position_embeddings = 4096});
  spec.norm = NormKind::LayerNorm;
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = config.optional_flag("use_qkv_bias").value_or(false);
  spec.rotary_fraction = read_rotary_fraction(config, "partial_rotary_factor", 0.25);
  spec.residual = config.optional_flag("use_parallel_residual").value_or(false) ? ResidualKind::ParallelOneNorm
                                                                                : ResidualKind::Sequential;
  spec.residual_dropout = read_dropout(config, "hidden_dropout", 0);
  if (config.optional_flag("qk_layernorm").value_or(false))
    config.report("qk_layernorm", "norms on q and k are not modelled here");
}

ModelWeights list_stablelm(const ModelSpec& spec) {
  Tensors layer;
  add_attention(layer, spec);
  add_gated_mlp(layer, spec);
  add_norm_of(layer, spec, "input_layernorm");
  if (spec.residual == ResidualKind::Sequential) add_norm_of(layer, spec, "post_attention_layernorm");
  return decoder_weights(spec, std::move(layer));
}

}  // namespace

constinit const Family kStableLm{.name = "stablelm",
                                 .model_type = "stablelm",
                                 .architecture = "StableLmForCausalLM",
                                 .read = read_stablelm,
                                 .list = list_stablelm};

}  // namespace gpuplan
