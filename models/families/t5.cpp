// T5, Flan-T5, T0 and mT5: an encoder and a decoder whose layers also attend to the encoder's output; no biases;
// learned biases of the scores by distance, shared by the layers of a stack and stored in its first block. Attention is
// written out: the scores exist. Source of names and defaults: transformers T5Config, MT5Config, modeling_t5.py.
#include <array>

#include <fmt/format.h>

#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

struct T5Defaults {
  std::int64_t vocab_size, d_model, d_ff, num_layers, num_heads;
  const char* projection;
  bool tie_word_embeddings;
};
constexpr T5Defaults kT5Defaults{32128, 512, 2048, 6, 8, "relu", true};
constexpr T5Defaults kMt5Defaults{250112, 512, 1024, 8, 6, "gated-gelu", false};
constexpr std::int64_t kPositions = 512;  // of pre-training; the distances are bucketed, so nothing ends there

/// "relu", "gated-gelu" (whose gelu is the tanh form written out), "gated-silu", …
void read_projection(Fields& config, ModelSpec& spec, const char* otherwise) {
  const std::string text = config.optional_text("feed_forward_proj").value_or(otherwise);
  const bool is_gated = text.starts_with("gated-");
  const std::string name = is_gated ? text.substr(6) : text;
  spec.mlp = is_gated ? MlpKind::Gated : MlpKind::Plain;
  if (text == "gated-gelu" || name == "gelu_new")
    spec.activation = "gelu_new";
  else if (name == "relu" || name == "silu" || name == "gelu")
    spec.activation = name;
  else
    config.report("feed_forward_proj",
                  fmt::format("'{}' is not modelled; relu, gelu, silu, or one of them after 'gated-'", text));
}

void read_with(Fields& config, ModelSpec& spec, const T5Defaults& d) {
  spec.hidden_size = read_either(config, "d_model", "hidden_size", kWidthRange, d.d_model);
  spec.num_encoder_layers = read_either(config, "num_layers", "num_hidden_layers", kLayerRange, d.num_layers);
  spec.num_hidden_layers = config.optional_integer("num_decoder_layers", kLayerRange).value_or(spec.num_encoder_layers);
  spec.num_attention_heads = spec.num_key_value_heads =
      read_either(config, "num_heads", "num_attention_heads", kHeadRange, d.num_heads);
  spec.intermediate_size = read_either(config, "d_ff", "intermediate_size", kFfnRange, d.d_ff);
  spec.vocab_size = config.optional_integer("vocab_size", kVocabRange).value_or(d.vocab_size);
  spec.max_position_embeddings =
      read_either(config, "n_positions", "max_position_embeddings", kPositionRange, kPositions);
  spec.tie_word_embeddings = config.optional_flag("tie_word_embeddings").value_or(d.tie_word_embeddings);
  spec.position = PositionKind::RelativeBias;
  spec.relative_buckets = config.optional_integer("relative_attention_num_buckets", {1, 1 << 16}).value_or(32);
  spec.materialises_scores = true;
  spec.residual_dropout = spec.attention_dropout = spec.mlp_dropout =
      read_dropout(config, "dropout_rate", kDefaultDropout);
  read_projection(config, spec, d.projection);
  check_heads(config, spec, read_either(config, "d_kv", "head_dim", kHeadRange, 64));
}

void read_t5(Fields& config, ModelSpec& spec) { read_with(config, spec, kT5Defaults); }
void read_mt5(Fields& config, ModelSpec& spec) { read_with(config, spec, kMt5Defaults); }

void add_attention_of(Tensors& tensors, const ModelSpec& spec, const std::string& module,
                      std::array<LinearSlot, 4> slots) {
  add_linear(tensors, slots[0], module + ".q", spec.hidden_size, spec.q_width());
  add_linear(tensors, slots[1], module + ".k", spec.hidden_size, spec.kv_width());
  add_linear(tensors, slots[2], module + ".v", spec.hidden_size, spec.kv_width());
  add_linear(tensors, slots[3], module + ".o", spec.q_width(), spec.hidden_size);
}

void add_feed_forward(Tensors& tensors, const ModelSpec& spec, const std::string& module) {
  const std::int64_t hidden = spec.hidden_size, width = spec.intermediate_size;
  if (spec.mlp == MlpKind::Gated) {
    add_linear(tensors, LinearSlot::Gate, module + ".wi_0", hidden, width);
    add_linear(tensors, LinearSlot::Up, module + ".wi_1", hidden, width);
  } else {
    add_linear(tensors, LinearSlot::Up, module + ".wi", hidden, width);
  }
  add_linear(tensors, LinearSlot::Down, module + ".wo", width, hidden);
}

constexpr std::array kSelf{LinearSlot::Q, LinearSlot::K, LinearSlot::V, LinearSlot::O};
constexpr std::array kCross{LinearSlot::CrossQ, LinearSlot::CrossK, LinearSlot::CrossV, LinearSlot::CrossO};

Tensors encoder_layer(const ModelSpec& spec) {
  Tensors layer;
  add_attention_of(layer, spec, "layer.0.SelfAttention", kSelf);
  add_norm(layer, "layer.0.layer_norm", spec.hidden_size);
  add_feed_forward(layer, spec, "layer.1.DenseReluDense");
  add_norm(layer, "layer.1.layer_norm", spec.hidden_size);
  return layer;
}

Tensors decoder_layer(const ModelSpec& spec) {
  Tensors layer;
  add_attention_of(layer, spec, "layer.0.SelfAttention", kSelf);
  add_norm(layer, "layer.0.layer_norm", spec.hidden_size);
  add_attention_of(layer, spec, "layer.1.EncDecAttention", kCross);
  add_norm(layer, "layer.1.layer_norm", spec.hidden_size);
  add_feed_forward(layer, spec, "layer.2.DenseReluDense");
  add_norm(layer, "layer.2.layer_norm", spec.hidden_size);
  return layer;
}

/// The stack's table of biases by distance; in its first block by name, in front of it here.
WeightTensor distance_biases(const ModelSpec& spec, const std::string& stack) {
  return {.name = stack + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight",
          .shape = {spec.relative_buckets, spec.num_attention_heads},
          .role = WeightRole::Position};
}

ModelWeights list_t5(const ModelSpec& spec) {
  ModelWeights weights;
  add_embedding(weights, spec, "shared");
  weights.before.push_back(distance_biases(spec, "encoder"));
  Tensors bridge;
  add_norm(bridge, "encoder.final_layer_norm", spec.hidden_size);
  bridge.push_back(distance_biases(spec, "decoder"));
  weights.kinds.push_back(
      {.name = "encoder layer", .prefix = "encoder.block.{}.", .tensors = encoder_layer(spec), .is_causal = false});
  weights.kinds.push_back({.name = "bridge", .prefix = "", .tensors = std::move(bridge), .is_bridge = true});
  weights.kinds.push_back({.name = "decoder layer",
                           .prefix = "decoder.block.{}.",
                           .offset = spec.num_encoder_layers + 1,
                           .tensors = decoder_layer(spec),
                           .has_cross_attention = true});
  weights.order.assign(std::size_t(spec.num_encoder_layers), 0);
  weights.order.push_back(1);
  weights.order.insert(weights.order.end(), std::size_t(spec.num_hidden_layers), 2);
  add_norm(weights.after, "decoder.final_layer_norm", spec.hidden_size);
  add_head(weights, spec);
  return weights;
}

}  // namespace

constinit const Family kT5{.name = "t5",
                           .model_type = "t5",
                           .architecture = "T5ForConditionalGeneration",
                           .other_architecture = "T5WithLMHeadModel",
                           .read = read_t5,
                           .list = list_t5};
constinit const Family kMt5{.name = "mt5",
                            .model_type = "mt5",
                            .architecture = "MT5ForConditionalGeneration",
                            .read = read_mt5,
                            .list = list_t5};

}  // namespace gpuplan
