// SantaCoder and StarCoder 1: GPT-2 with one key-value head, torch Linears in place of Conv1D, logits in 16 bit.
// Source of names and defaults: transformers GPTBigCodeConfig, modeling_gpt_bigcode.py.
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read_gpt_bigcode(Fields& config, ModelSpec& spec) {
  spec.hidden_size = read_either(config, "n_embd", "hidden_size", kWidthRange, 768);
  spec.num_hidden_layers = read_either(config, "n_layer", "num_hidden_layers", kLayerRange, 12);
  spec.num_attention_heads = read_either(config, "n_head", "num_attention_heads", kHeadRange, 12);
  spec.num_key_value_heads = config.optional_flag("multi_query").value_or(true) ? 1 : spec.num_attention_heads;
  spec.max_position_embeddings = spec.learned_positions =
      read_either(config, "n_positions", "max_position_embeddings", kPositionRange, 1024);
  spec.intermediate_size = read_either(config, "n_inner", "intermediate_size", kFfnRange, 4 * spec.hidden_size);
  spec.vocab_size = config.optional_integer("vocab_size", kVocabRange).value_or(50257);
  spec.tie_word_embeddings = config.optional_flag("tie_word_embeddings").value_or(true);
  spec.norm = NormKind::LayerNorm;
  spec.mlp = MlpKind::Plain;
  spec.position = PositionKind::Learned;
  spec.activation = read_activation(config, "activation_function", "gelu_pytorch_tanh");
  spec.has_qkv_bias = spec.has_o_bias = spec.has_mlp_bias = spec.has_fused_qkv = spec.keeps_16bit_logits = true;
  spec.residual_dropout = read_dropout(config, "resid_pdrop", kDefaultDropout);
  spec.attention_dropout = read_dropout(config, "attn_pdrop", kDefaultDropout);
  check_heads(config, spec, std::nullopt);
}

ModelWeights list_gpt_bigcode(const ModelSpec& spec) {
  Tensors layer;
  add_norm_of(layer, spec, "ln_1");
  add_linear(layer, LinearSlot::Qkv, "attn.c_attn", spec.hidden_size, spec.q_width() + 2 * spec.kv_width(), true);
  add_linear(layer, LinearSlot::O, "attn.c_proj", spec.q_width(), spec.hidden_size, true);
  add_norm_of(layer, spec, "ln_2");
  add_linear(layer, LinearSlot::Up, "mlp.c_fc", spec.hidden_size, spec.intermediate_size, true);
  add_linear(layer, LinearSlot::Down, "mlp.c_proj", spec.intermediate_size, spec.hidden_size, true);
  ModelWeights weights;
  add_layers(weights, spec, "transformer.h.{}.", std::move(layer));
  add_embedding(weights, spec, "transformer.wte");
  weights.before.push_back({.name = "transformer.wpe.weight",
                            .shape = {spec.learned_positions, spec.hidden_size},
                            .role = WeightRole::Position});
  add_norm_of(weights.after, spec, "transformer.ln_f");
  add_head(weights, spec);
  return weights;
}

}  // namespace

constinit const Family kGptBigCode{.name = "gpt_bigcode",
                                   .model_type = "gpt_bigcode",
                                   .architecture = "GPTBigCodeForCausalLM",
                                   .read = read_gpt_bigcode,
                                   .list = list_gpt_bigcode};

}  // namespace gpuplan
