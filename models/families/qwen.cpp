// Qwen (the first generation, remote code): Llama's layer under GPT-2's names, q, k and v in one linear with biases.
// The config's intermediate_size counts both branches of the MLP. Logits stay in 16 bit. Source of names and defaults:
// configuration_qwen.py and modeling_qwen.py of Qwen/Qwen-7B.
#include <fmt/format.h>

#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

std::int64_t read_half_width(Fields& config) {
  const std::int64_t both = config.optional_integer("intermediate_size", kFfnRange).value_or(22016);
  if (both % 2 != 0) config.report("intermediate_size", fmt::format("{} is odd, but counts two branches", both));
  return both / 2;
}

void read(Fields& config, ModelSpec& spec) {
  spec.hidden_size = config.optional_integer("hidden_size", kWidthRange).value_or(4096);
  spec.num_hidden_layers = config.optional_integer("num_hidden_layers", kLayerRange).value_or(32);
  spec.num_attention_heads = spec.num_key_value_heads =
      config.optional_integer("num_attention_heads", kHeadRange).value_or(32);
  spec.intermediate_size = read_half_width(config);
  spec.vocab_size = config.optional_integer("vocab_size", kVocabRange).value_or(151936);
  spec.max_position_embeddings = read_either(config, "seq_length", "max_position_embeddings", kPositionRange, 8192);
  spec.tie_word_embeddings = config.optional_flag("tie_word_embeddings").value_or(false);
  spec.has_qkv_bias = spec.has_fused_qkv = true;
  spec.has_o_bias = spec.has_mlp_bias = !config.optional_flag("no_bias").value_or(true);
  spec.keeps_16bit_logits = true;
  spec.residual_dropout = read_dropout(config, "emb_dropout_prob", 0);  // of the embedding and after each branch
  spec.attention_dropout = read_dropout(config, "attn_dropout_prob", 0);
  check_heads(config, spec, config.optional_integer("kv_channels", kHeadRange).value_or(128));
}

void write(const ModelSpec& spec, nlohmann::json& config) {
  config["hidden_size"] = spec.hidden_size;
  config["num_hidden_layers"] = spec.num_hidden_layers;
  config["num_attention_heads"] = spec.num_attention_heads;
  config["kv_channels"] = spec.head_dim;
  config["intermediate_size"] = 2 * spec.intermediate_size;
  config["vocab_size"] = spec.vocab_size;
  config["seq_length"] = spec.max_position_embeddings;
  config["tie_word_embeddings"] = spec.tie_word_embeddings;
  config["no_bias"] = !spec.has_mlp_bias;
  config["emb_dropout_prob"] = spec.residual_dropout;
  config["attn_dropout_prob"] = spec.attention_dropout;
}

ModelWeights list(const ModelSpec& spec) {
  Tensors layer;
  add_norm_of(layer, spec, "ln_1");
  add_linear(layer, LinearSlot::Qkv, "attn.c_attn", spec.hidden_size, 3 * spec.q_width(), true);
  add_linear(layer, LinearSlot::O, "attn.c_proj", spec.q_width(), spec.hidden_size, spec.has_o_bias);
  add_norm_of(layer, spec, "ln_2");
  add_linear(layer, LinearSlot::Up, "mlp.w1", spec.hidden_size, spec.intermediate_size, spec.has_mlp_bias);
  add_linear(layer, LinearSlot::Gate, "mlp.w2", spec.hidden_size, spec.intermediate_size, spec.has_mlp_bias);
  add_linear(layer, LinearSlot::Down, "mlp.c_proj", spec.intermediate_size, spec.hidden_size, spec.has_mlp_bias);
  ModelWeights weights;
  add_layers(weights, spec, "transformer.h.{}.", std::move(layer));
  add_embedding(weights, spec, "transformer.wte");
  add_norm_of(weights.after, spec, "transformer.ln_f");
  add_head(weights, spec);
  return weights;
}

}  // namespace

constinit const Family kQwen{.name = "qwen",
                             .model_type = "qwen",
                             .architecture = "QWenLMHeadModel",
                             .read = read,
                             .write = write,
                             .list = list};

}  // namespace gpuplan
