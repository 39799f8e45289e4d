// MPT: q, k and v in one linear, ALiBi or learned positions (a table only without ALiBi), LayerNorms without biases
// where the linears have none. The transformers port knows the ALiBi form without biases alone; llm-foundry builds all
// of them. Source of names and defaults: transformers MptConfig; llm-foundry configuration_mpt.py, modeling_mpt.py.
#include <fmt/format.h>

#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

std::int64_t read_key_value_heads(Fields& attention, const ModelSpec& spec) {
  const std::string type = attention.optional_text("attn_type").value_or("multihead_attention");
  if (type == "multiquery_attention") return 1;
  if (type == "grouped_query_attention")
    return attention.optional_integer("kv_n_heads", kHeadRange).value_or(spec.num_attention_heads);
  if (type != "multihead_attention") attention.report("attn_type", fmt::format("'{}' is not modelled", type));
  return spec.num_attention_heads;
}

void read_attention(Fields& config, ModelSpec& spec) {
  const nlohmann::json empty = nlohmann::json::object();
  Fields attention = config.optional_fields("attn_config").value_or(Fields(empty, config.file()));
  spec.num_key_value_heads = read_key_value_heads(attention, spec);
  const bool has_alibi = attention.optional_flag("alibi").value_or(true),
             has_rope = attention.optional_flag("rope").value_or(false);
  spec.position = has_alibi ? PositionKind::Alibi : has_rope ? PositionKind::Rope : PositionKind::Learned;
  spec.attention_dropout = read_dropout(attention, "attn_pdrop", 0);
  if (attention.optional_flag("qk_ln").value_or(false))
    attention.report("qk_ln", "norms on q and k are not modelled here");
}

void read_mpt(Fields& config, ModelSpec& spec) {
  spec.hidden_size = read_either(config, "d_model", "hidden_size", kWidthRange, 2048);
  spec.num_hidden_layers = read_either(config, "n_layers", "num_hidden_layers", kLayerRange, 24);
  spec.num_attention_heads = read_either(config, "n_heads", "num_attention_heads", kHeadRange, 16);
  spec.intermediate_size = config.optional_integer("expansion_ratio", {1, 64}).value_or(4) * spec.hidden_size;
  spec.max_position_embeddings = read_either(config, "max_seq_len", "max_position_embeddings", kPositionRange, 2048);
  spec.vocab_size = config.optional_integer("vocab_size", kVocabRange).value_or(50368);
  spec.tie_word_embeddings = config.optional_flag("tie_word_embeddings").value_or(true);
  spec.norm = NormKind::LayerNorm;
  spec.mlp = MlpKind::Plain;
  spec.activation = "gelu";
  spec.has_fused_qkv = true;
  spec.has_qkv_bias = spec.has_o_bias = spec.has_mlp_bias = !config.optional_flag("no_bias").value_or(true);
  spec.residual_dropout = read_dropout(config, "resid_pdrop", 0);
  read_attention(config, spec);
  const bool has_table =
      spec.position == PositionKind::Learned && config.optional_flag("learned_pos_emb").value_or(true);
  spec.learned_positions = has_table ? spec.max_position_embeddings : 0;
  check_heads(config, spec, std::nullopt);
}

/// Norms have biases where the linears have.
void add_mpt_norm(Tensors& tensors, const ModelSpec& spec, const std::string& name) {
  if (spec.has_mlp_bias)
    add_layer_norm(tensors, name, spec.hidden_size);
  else
    add_norm(tensors, name, spec.hidden_size);
}

ModelWeights list_mpt(const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden_size;
  Tensors layer;
  add_mpt_norm(layer, spec, "norm_1");
  add_linear(layer, LinearSlot::Qkv, "attn.Wqkv", hidden, spec.q_width() + 2 * spec.kv_width(), spec.has_qkv_bias);
  add_linear(layer, LinearSlot::O, "attn.out_proj", spec.q_width(), hidden, spec.has_o_bias);
  add_mpt_norm(layer, spec, "norm_2");
  add_linear(layer, LinearSlot::Up, "ffn.up_proj", hidden, spec.intermediate_size, spec.has_mlp_bias);
  add_linear(layer, LinearSlot::Down, "ffn.down_proj", spec.intermediate_size, hidden, spec.has_mlp_bias);
  ModelWeights weights;
  add_layers(weights, spec, "transformer.blocks.{}.", std::move(layer));
  add_embedding(weights, spec, "transformer.wte");
  if (spec.learned_positions > 0)
    weights.before.push_back(
        {.name = "transformer.wpe.weight", .shape = {spec.learned_positions, hidden}, .role = WeightRole::Position});
  add_mpt_norm(weights.after, spec, "transformer.norm_f");
  add_head(weights, spec);
  return weights;
}

}  // namespace

constinit const Family kMpt{.name = "mpt",
                            .model_type = "mpt",
                            .architecture = "MPTForCausalLM",
                            .other_architecture = "MptForCausalLM",
                            .read = read_mpt,
                            .list = list_mpt};

}  // namespace gpuplan
