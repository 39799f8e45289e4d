// What the decoder families share: the fields of their configs, and the tensors of attention and MLP under the names
// of the Hugging Face checkpoints. A family adds what makes it different.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_file.h"
#include "models/model_spec.h"
#include "models/weights.h"

namespace gpuplan {

/// Holds what transformers assumes for a field that a config leaves out (the class defaults of each *Config).
struct DecoderDefaults {
  std::optional<std::int64_t> num_attention_heads;  // unset: the config must say it
  std::optional<std::int64_t> num_key_value_heads;  // unset: as many as attention heads
  std::optional<std::int64_t> head_dim;             // unset: hidden_size / num_attention_heads
  std::optional<std::int64_t> vocab_size;           // unset: the config must say it
  std::optional<std::int64_t> intermediate_size;    // unset: the config must say it
  std::int64_t max_position_embeddings = 2048;
  bool tie_word_embeddings = false;
};

// Largest extents accepted. Far above any model, and small enough that parameters x 16 bytes stay below 2^63:
// 2 V h + L (4 h q + 3 h f) <= 2^43 + 2^10 (2^40 + 2^40) < 2^52.
inline constexpr IntRange kWidthRange{1, 1 << 18};  // hidden_size, heads x head_dim
inline constexpr IntRange kFfnRange{1, 1 << 20};
inline constexpr IntRange kVocabRange{1, 1 << 24};
inline constexpr IntRange kLayerRange{1, 1 << 10};  // the deepest published one has 1,000: DeepNet, arXiv 2203.00555
inline constexpr IntRange kHeadRange{1, 1 << 12};   // number of heads, head_dim
inline constexpr IntRange kPositionRange{1, 1 << 28};

/// Reads the sizes that every rotary decoder states, checks that heads divide, and sets the head dimension.
void read_decoder(Fields& config, ModelSpec& spec, const DecoderDefaults& defaults);
/// Heads must divide the width (when head_dim is derived) and key-value heads must divide heads.
void check_heads(Fields& config, ModelSpec& spec, std::optional<std::int64_t> stated_head_dim);
/// A whole number under the family's own key or, where that is missing, under the usual one (transformers'
/// attribute_map); required when there is no default.
std::int64_t read_either(Fields& config, const char* own_key, const char* usual_key, IntRange range,
                         std::optional<std::int64_t> otherwise = {});
/// A share of head_dim under `key`, or under partial_rotary_factor, or in rope_parameters (transformers 5).
double read_rotary_fraction(Fields& config, const char* key, double otherwise);
/// Holds what most configs that name a probability of dropout have where they leave it out.
inline constexpr double kDefaultDropout = 0.1;
/// A probability under `key`.
double read_dropout(Fields& config, const char* key, double otherwise);
/// The activation under `key`, in our spelling ("gelu_tanh" for "gelu_pytorch_tanh").
std::string read_activation(Fields& config, const char* key, std::string_view otherwise);
/// The layers that use the window: those marked in `layer_types` if the config has it, else `by_rule`.
void read_sliding_layers(Fields& config, ModelSpec& spec, std::int64_t by_rule);
/// `use_sliding_window` with `max_window_layers` full layers first (Qwen, SmolLM3); off unless the config says so.
void read_optional_window(Fields& config, ModelSpec& spec, std::int64_t default_full_layers);

using Tensors = std::vector<WeightTensor>;
/// Weight [out, in] of a torch Linear, and its bias [out] when asked for. `name` is the module: "self_attn.q_proj".
void add_linear(Tensors& tensors, LinearSlot slot, const std::string& name, std::int64_t in, std::int64_t out,
                bool has_bias = false);
void add_norm(Tensors& tensors, const std::string& name, std::int64_t width);
/// Weight and bias; the bias is a Norm tensor too, so that nothing decays, shards or counts it apart.
void add_layer_norm(Tensors& tensors, const std::string& name, std::int64_t width);
/// A LayerNorm or an RMSNorm, as the model has.
void add_norm_of(Tensors& tensors, const ModelSpec& spec, const std::string& name);
/// The embedding table, [vocab_size, embedding width].
void add_embedding(ModelWeights& weights, const ModelSpec& spec, const std::string& name);
/// The head, unless it is tied, and its bias where the model has one.
void add_head(ModelWeights& weights, const ModelSpec& spec, const std::string& name = "lm_head");
/// q_proj, k_proj, v_proj, o_proj, and q_norm, k_norm when the model has them.
void add_attention(Tensors& tensors, const ModelSpec& spec);
/// gate_proj, up_proj, down_proj.
void add_gated_mlp(Tensors& tensors, const ModelSpec& spec);
/// One kind of layer, `num_hidden_layers` times, under `prefix`.
void add_layers(ModelWeights& weights, const ModelSpec& spec, const std::string& prefix, Tensors layer);
/// model.embed_tokens, the given layer, model.norm, and lm_head unless tied.
ModelWeights decoder_weights(const ModelSpec& spec, Tensors layer);
/// A pre-norm layer: attention, gated MLP, and the two norms.
ModelWeights pre_norm_weights(const ModelSpec& spec);

/// Sets what Gemma 3n and 4 share: norms around each branch, on queries, keys and values; a window; no biases.
void read_gemma_layer(Fields& config, ModelSpec& spec);

}  // namespace gpuplan
