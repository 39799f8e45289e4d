// Mixtral: Mistral's attention, every MLP a mixture of experts.
// Source of names and defaults: transformers MixtralConfig, modeling_mixtral.py (the hub's checkpoints keep one tensor
// per expert).
#include "models/families/experts.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read(Fields& config, ModelSpec& spec) {
  read_decoder(
      config, spec,
      {.num_attention_heads = 32, .num_key_value_heads = 8, .vocab_size = 32000, .max_position_embeddings = 4096 * 32});
  read_experts(config, spec, "num_local_experts", "intermediate_size",
               {.num_experts = 8, .experts_per_token = 2, .intermediate_size = {}});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.sliding_window = config.optional_integer("sliding_window", kPositionRange).value_or(0);
  read_sliding_layers(config, spec, spec.num_hidden_layers);
}

void write(const ModelSpec& spec, nlohmann::json& config) {
  write_decoder(spec, config);
  write_experts(spec, config, "num_local_experts", "intermediate_size");
  config["hidden_act"] = hf_activation(spec.activation);
  if (spec.sliding_window > 0) config["sliding_window"] = spec.sliding_window;
  if (spec.sliding_window > 0 && spec.sliding_layers != spec.num_hidden_layers) write_layer_types(spec, config);
}

ModelWeights list(const ModelSpec& spec) {
  Tensors common, sparse;
  add_attention(common, spec);
  add_norm(common, "input_layernorm", spec.hidden_size);
  add_norm(common, "post_attention_layernorm", spec.hidden_size);
  add_linear(sparse, LinearSlot::Router, "block_sparse_moe.gate", spec.hidden_size, spec.moe.num_experts);
  add_experts(sparse, spec, "block_sparse_moe.experts", {.gate = "w1", .up = "w3", .down = "w2"});
  return moe_weights(spec, std::move(common), std::move(sparse));
}

}  // namespace

constinit const Family kMixtral{.name = "mixtral",
                                .model_type = "mixtral",
                                .architecture = "MixtralForCausalLM",
                                .read = read,
                                .write = write,
                                .list = list};

}  // namespace gpuplan
