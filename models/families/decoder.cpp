#include "models/families/decoder.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace gpuplan {
namespace {

struct ActivationName {
  std::string_view hf, ours;
};

constexpr std::array kActivations{ActivationName{"silu", "silu"},
                                  ActivationName{"swish", "silu"},
                                  ActivationName{"gelu_pytorch_tanh", "gelu_tanh"},
                                  ActivationName{"gelu_tanh", "gelu_tanh"},
                                  ActivationName{"gelu_new", "gelu_new"},
                                  ActivationName{"gelu_fast", "gelu_new"},
                                  ActivationName{"gelu", "gelu"},
                                  ActivationName{"relu", "relu"},
                                  ActivationName{"relu2", "relu2"},
                                  ActivationName{"xielu", "xielu"}};

std::int64_t read_int(Fields& config, const char* key, std::optional<std::int64_t> otherwise, IntRange range) {
  if (!otherwise) return config.integer(key, range);
  return config.optional_integer(key, range).value_or(*otherwise);
}

/// Explicit null means "as many as attention heads" in every config class that allows it.
std::int64_t read_kv_heads(Fields& config, const ModelSpec& spec, std::optional<std::int64_t> otherwise) {
  const char* key = "num_key_value_heads";
  if (config.find(key)) return config.optional_integer(key, kHeadRange).value_or(0);
  return config.has(key) ? spec.num_attention_heads : otherwise.value_or(spec.num_attention_heads);
}

}  // namespace

void read_decoder(Fields& config, ModelSpec& spec, const DecoderDefaults& defaults) {
  spec.hidden_size = config.integer("hidden_size", kWidthRange);
  spec.num_hidden_layers = config.integer("num_hidden_layers", kLayerRange);
  spec.num_attention_heads = read_int(config, "num_attention_heads", defaults.num_attention_heads, kHeadRange);
  spec.num_key_value_heads = read_kv_heads(config, spec, defaults.num_key_value_heads);
  spec.intermediate_size = read_int(config, "intermediate_size", defaults.intermediate_size, kFfnRange);
  spec.vocab_size = read_int(config, "vocab_size", defaults.vocab_size, kVocabRange);
  spec.max_position_embeddings =
      read_int(config, "max_position_embeddings", defaults.max_position_embeddings, kPositionRange);
  spec.tie_word_embeddings = config.optional_flag("tie_word_embeddings").value_or(defaults.tie_word_embeddings);
  spec.attention_dropout = read_dropout(config, "attention_dropout", 0);
  spec.rope = read_rope(config);
  spec.norm_epsilon = config.optional_number("rms_norm_eps").value_or(spec.norm_epsilon);
  const auto stated = config.optional_integer("head_dim", kHeadRange);
  check_heads(config, spec, stated ? stated : defaults.head_dim);
}

void check_heads(Fields& config, ModelSpec& spec, std::optional<std::int64_t> stated_head_dim) {
  const std::int64_t heads = spec.num_attention_heads;
  if (config.has_problems() || heads == 0) return;
  if (!stated_head_dim && spec.hidden_size % heads != 0)
    config.report("num_attention_heads", fmt::format("{} heads do not divide hidden_size {}, and head_dim is not given",
                                                     heads, spec.hidden_size));
  spec.head_dim = stated_head_dim.value_or(spec.hidden_size / heads);
  if (!stated_head_dim && spec.head_dim > kHeadRange.most)
    config.report("num_attention_heads", fmt::format("{} heads of hidden_size {} are wider than {} each", heads,
                                                     spec.hidden_size, kHeadRange.most));
  if (spec.q_width() > kWidthRange.most)
    config.report("head_dim", fmt::format("{} heads of {} are wider than {}", heads, spec.head_dim, kWidthRange.most));
  if (spec.num_key_value_heads > 0 && heads % spec.num_key_value_heads != 0)
    config.report("num_key_value_heads",
                  fmt::format("{} does not divide the {} attention heads", spec.num_key_value_heads, heads));
}

std::int64_t read_either(Fields& config, const char* own_key, const char* usual_key, IntRange range,
                         std::optional<std::int64_t> otherwise) {
  const bool is_usual = config.find(usual_key) && !config.find(own_key);
  return read_int(config, is_usual ? usual_key : own_key, otherwise, range);
}

double read_rotary_fraction(Fields& config, const char* key, double otherwise) {
  double fraction = config.optional_number("partial_rotary_factor", kAnyNumber).value_or(otherwise);
  if (const nlohmann::json* rope = config.find("rope_parameters"); rope && rope->is_object())
    if (const auto* found = config.fields("rope_parameters").find("partial_rotary_factor"); found && found->is_number())
      fraction = *found;
  fraction = config.optional_number(key, kAnyNumber).value_or(fraction);
  if (fraction < 0 || fraction > 1) config.report(key, fmt::format("{} is not a share of the head; 0 to 1", fraction));
  return fraction;
}

double read_dropout(Fields& config, const char* key, double otherwise) {
  const double probability = config.optional_number(key, kAnyNumber).value_or(otherwise);
  if (probability < 0 || probability >= 1)
    config.report(key, fmt::format("{} is not a probability; 0 up to, but not including, 1", probability));
  return probability;
}

std::string read_activation(Fields& config, const char* key, std::string_view otherwise) {
  const std::string name = config.optional_text(key).value_or(std::string(otherwise));
  for (const ActivationName& row : kActivations)
    if (row.hf == name) return std::string(row.ours);
  config.report(
      key,
      fmt::format("unknown activation '{}'; known: silu, gelu, gelu_new, gelu_pytorch_tanh, relu, relu2, xielu", name));
  return {};
}

void read_sliding_layers(Fields& config, ModelSpec& spec, std::int64_t by_rule) {
  spec.sliding_layers = by_rule;
  if (spec.num_hidden_layers == 0) return;  // already reported
  if (const nlohmann::json* types = config.find("layer_types")) {
    const auto is_known = [](const nlohmann::json& type) {
      return type == "sliding_attention" || type == "full_attention";
    };
    if (!types->is_array() || std::ssize(*types) != spec.num_hidden_layers ||
        !std::all_of(types->begin(), types->end(), is_known))
      return config.report("layer_types",
                           fmt::format("must list 'full_attention' or 'sliding_attention' for each of the {} layers",
                                       spec.num_hidden_layers));
    spec.sliding_layers = std::count(types->begin(), types->end(), "sliding_attention");
  }
  if (spec.sliding_window == 0) spec.sliding_layers = 0;
  if (spec.sliding_layers == 0) spec.sliding_window = 0;
}

void read_optional_window(Fields& config, ModelSpec& spec, std::int64_t default_full_layers) {
  const bool is_used = config.optional_flag("use_sliding_window").value_or(false);
  const std::int64_t full_layers =
      config.optional_integer("max_window_layers", {0, kPositionRange.most}).value_or(default_full_layers);
  const std::int64_t window = config.optional_integer("sliding_window", kPositionRange).value_or(0);
  spec.sliding_window = is_used ? window : 0;
  read_sliding_layers(config, spec, std::max<std::int64_t>(0, spec.num_hidden_layers - full_layers));
}

void add_linear(Tensors& tensors, LinearSlot slot, const std::string& name, std::int64_t in, std::int64_t out,
                bool has_bias) {
  tensors.push_back(
      {.name = name + ".weight", .shape = {out, in}, .role = WeightRole::Linear, .in = in, .out = out, .slot = slot});
  if (has_bias) tensors.push_back({.name = name + ".bias", .shape = {out}, .role = WeightRole::Bias});
}

void add_norm(Tensors& tensors, const std::string& name, std::int64_t width) {
  tensors.push_back({.name = name + ".weight", .shape = {width}, .role = WeightRole::Norm});
}

void add_layer_norm(Tensors& tensors, const std::string& name, std::int64_t width) {
  add_norm(tensors, name, width);
  tensors.push_back({.name = name + ".bias", .shape = {width}, .role = WeightRole::Norm});
}

void add_norm_of(Tensors& tensors, const ModelSpec& spec, const std::string& name) {
  if (spec.norm == NormKind::LayerNorm)
    add_layer_norm(tensors, name, spec.hidden_size);
  else
    add_norm(tensors, name, spec.hidden_size);
}

void add_embedding(ModelWeights& weights, const ModelSpec& spec, const std::string& name) {
  weights.before.push_back(
      {.name = name + ".weight", .shape = {spec.vocab_size, spec.embedding_width()}, .role = WeightRole::Embedding});
}

void add_head(ModelWeights& weights, const ModelSpec& spec, const std::string& name) {
  const std::int64_t width = spec.embedding_width();
  if (!spec.tie_word_embeddings)
    weights.after.push_back({.name = name + ".weight",
                             .shape = {spec.vocab_size, width},
                             .role = WeightRole::Head,
                             .in = width,
                             .out = spec.vocab_size});
  if (spec.has_head_bias)
    weights.after.push_back({.name = name + ".bias", .shape = {spec.vocab_size}, .role = WeightRole::Bias});
}

void add_attention(Tensors& tensors, const ModelSpec& spec) {
  const std::int64_t with_gate = spec.has_attention_gate ? 2 : 1;
  add_linear(tensors, LinearSlot::Q, "self_attn.q_proj", spec.hidden_size, with_gate * spec.q_width(),
             spec.has_qkv_bias);
  add_linear(tensors, LinearSlot::K, "self_attn.k_proj", spec.hidden_size, spec.kv_width(), spec.has_qkv_bias);
  add_linear(tensors, LinearSlot::V, "self_attn.v_proj", spec.hidden_size, spec.kv_width(), spec.has_qkv_bias);
  add_linear(tensors, LinearSlot::O, "self_attn.o_proj", spec.q_width(), spec.hidden_size, spec.has_o_bias);
  if (spec.qk_norm == QkNorm::None || spec.qk_norm == QkNorm::Unweighted) return;
  const bool is_full = spec.qk_norm == QkNorm::Full;
  add_norm(tensors, "self_attn.q_norm", is_full ? spec.q_width() : spec.head_dim);
  add_norm(tensors, "self_attn.k_norm", is_full ? spec.kv_width() : spec.head_dim);
}

void add_gated_mlp(Tensors& tensors, const ModelSpec& spec) {
  add_linear(tensors, LinearSlot::Gate, "mlp.gate_proj", spec.hidden_size, spec.intermediate_size, spec.has_mlp_bias);
  add_linear(tensors, LinearSlot::Up, "mlp.up_proj", spec.hidden_size, spec.intermediate_size, spec.has_mlp_bias);
  add_linear(tensors, LinearSlot::Down, "mlp.down_proj", spec.intermediate_size, spec.hidden_size, spec.has_mlp_bias);
}

void add_layers(ModelWeights& weights, const ModelSpec& spec, const std::string& prefix, Tensors layer) {
  weights.kinds.push_back({.prefix = prefix, .tensors = std::move(layer)});
  weights.order.assign(std::size_t(spec.num_hidden_layers), 0);
}

ModelWeights decoder_weights(const ModelSpec& spec, Tensors layer) {
  ModelWeights weights;
  add_layers(weights, spec, "model.layers.{}.", std::move(layer));
  add_embedding(weights, spec, "model.embed_tokens");
  add_norm_of(weights.after, spec, "model.norm");
  add_head(weights, spec);
  return weights;
}

ModelWeights pre_norm_weights(const ModelSpec& spec) {
  Tensors layer;
  add_attention(layer, spec);
  add_gated_mlp(layer, spec);
  add_norm_of(layer, spec, "input_layernorm");
  add_norm_of(layer, spec, "post_attention_layernorm");
  return decoder_weights(spec, std::move(layer));
}

}  // namespace gpuplan
