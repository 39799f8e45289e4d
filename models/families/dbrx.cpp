// DBRX (132B): one linear for queries, keys and values, whose results are clipped, LayerNorms without biases, and in
// every layer 16 experts of which a token goes to four, stacked per projection. Source of names and defaults:
// transformers 4.57, configuration_dbrx.py and modeling_dbrx.py.
#include <fmt/format.h>

#include "models/families/experts.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read_dbrx(Fields& config, ModelSpec& spec) {
  spec.hidden_size = read_either(config, "d_model", "hidden_size", kWidthRange, 2048);
  spec.num_hidden_layers = read_either(config, "n_layers", "num_hidden_layers", kLayerRange, 24);
  spec.num_attention_heads = read_either(config, "n_heads", "num_attention_heads", kHeadRange, 16);
  spec.max_position_embeddings = read_either(config, "max_seq_len", "max_position_embeddings", kPositionRange, 2048);
  spec.vocab_size = config.optional_integer("vocab_size", kVocabRange).value_or(32000);
  spec.tie_word_embeddings = config.optional_flag("tie_word_embeddings").value_or(false);
  auto attention = config.optional_fields("attn_config");
  spec.num_key_value_heads = attention ? attention->optional_integer("kv_n_heads", kHeadRange).value_or(1) : 1;
  spec.norm = NormKind::LayerNorm;
  spec.has_fused_qkv = true;
  check_heads(config, spec, {});
  auto ffn = config.optional_fields("ffn_config");
  if (!ffn) return config.report("ffn_config", "is needed: it says how large the experts are");
  read_experts(*ffn, spec, "moe_num_experts", "ffn_hidden_size",
               {.num_experts = 4, .experts_per_token = 1, .intermediate_size = 3584}, "moe_top_k");
  spec.intermediate_size = spec.moe.intermediate_size;
}

ModelWeights list_dbrx(const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden_size, width = spec.moe.intermediate_size, experts = spec.moe.num_experts;
  Tensors layer;
  add_norm(layer, "norm_attn_norm.norm_1", hidden);
  add_linear(layer, LinearSlot::Qkv, "norm_attn_norm.attn.Wqkv", hidden, spec.q_width() + 2 * spec.kv_width());
  add_linear(layer, LinearSlot::O, "norm_attn_norm.attn.out_proj", spec.q_width(), hidden);
  add_norm(layer, "norm_attn_norm.norm_2", hidden);
  add_linear(layer, LinearSlot::Router, "ffn.router.layer", hidden, experts);
  add_stacked_experts(layer, LinearSlot::ExpertGate, "ffn.experts.mlp.w1", experts, hidden, width);
  add_stacked_experts(layer, LinearSlot::ExpertUp, "ffn.experts.mlp.v1", experts, hidden, width);
  add_stacked_experts(layer, LinearSlot::ExpertDown, "ffn.experts.mlp.w2", experts, width, hidden);
  ModelWeights weights;
  add_moe_layers(weights, spec, "transformer.blocks.{}.", {}, std::move(layer));
  add_embedding(weights, spec, "transformer.wte");
  add_norm(weights.after, "transformer.norm_f", hidden);
  add_head(weights, spec);
  return weights;
}

}  // namespace

constinit const Family kDbrx{
    .name = "dbrx", .model_type = "dbrx", .architecture = "DbrxForCausalLM", .read = read_dbrx, .list = list_dbrx};

}  // namespace gpuplan
