// MiniMax-M2 (not Text-01, which has linear attention): many small experts in every layer under Mixtral's names, with a
// correction of the router's scores; norms on whole q and k; half of each head is rotated. Its layers that predict
// further tokens are not part of the model that is fine-tuned. Source of names and defaults:
// configuration_minimax_m2.py and modeling_minimax_m2.py of MiniMaxAI/MiniMax-M2, transformers MiniMaxM2Config.
#include "models/families/experts.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read_minimax_m2(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec,
               {.num_attention_heads = 48,
                .num_key_value_heads = 8,
                .head_dim = 128,
                .vocab_size = 200064,
                .max_position_embeddings = 196608});
  read_experts(config, spec, "num_local_experts", "intermediate_size",
               {.num_experts = 256, .experts_per_token = 8, .intermediate_size = {}});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.moe.has_router_correction = config.optional_flag("use_routing_bias").value_or(true);
  spec.qk_norm = config.optional_flag("use_qk_norm").value_or(true) ? QkNorm::Full : QkNorm::None;
  if (const auto kind = config.optional_text("qk_norm_type"); kind && *kind != "per_layer")
    config.report("qk_norm_type", "only per_layer, norms on whole q and k, is modelled");
  const std::int64_t rotated = config.optional_integer("rotary_dim", kHeadRange).value_or(spec.head_dim);
  spec.rotary_fraction = spec.head_dim > 0 ? double(rotated) / double(spec.head_dim) : 1;
  if (spec.rotary_fraction > 1) config.report("rotary_dim", "is larger than a head");
}

ModelWeights list_minimax_m2(const ModelSpec& spec) {
  Tensors common, sparse;
  add_attention(common, spec);
  add_norm(common, "input_layernorm", spec.hidden_size);
  add_norm(common, "post_attention_layernorm", spec.hidden_size);
  add_linear(sparse, LinearSlot::Router, "block_sparse_moe.gate", spec.hidden_size, spec.moe.num_experts);
  if (spec.moe.has_router_correction)
    sparse.push_back({.name = "block_sparse_moe.e_score_correction_bias",
                      .shape = {spec.moe.num_experts},
                      .role = WeightRole::Bias});
  add_experts(sparse, spec, "block_sparse_moe.experts", {.gate = "w1", .up = "w3", .down = "w2"});
  return moe_weights(spec, std::move(common), std::move(sparse));
}

}  // namespace

constinit const Family kMiniMaxM2{.name = "minimax_m2",
                                  .model_type = "minimax_m2",
                                  .architecture = "MiniMaxM2ForCausalLM",
                                  .read = read_minimax_m2,
                                  .list = list_minimax_m2};

}  // namespace gpuplan
