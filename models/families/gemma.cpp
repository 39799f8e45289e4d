// Gemma 1, 2 and 3.
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

// Gemma 1: Llama's tensors with a tied head, heads of 256 and norms that scale by 1 + weight.
// Source of defaults: transformers GemmaConfig. Its `hidden_act` is ignored there too: the early files say "gelu" and
// mean the tanh form, so only `hidden_activation` counts.

void read_gemma(Fields& config, ModelSpec& spec) {
  read_decoder(
      config, spec,
      {.num_key_value_heads = 16, .head_dim = 256, .max_position_embeddings = 8192, .tie_word_embeddings = true});
  spec.norm = NormKind::GemmaRmsNorm;
  spec.scales_embedding = true;
  spec.activation = read_activation(config, "hidden_activation", "gelu_pytorch_tanh");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
}

constexpr std::int64_t kGemmaWindow = 4096;  // of Gemma 2 and 3, unless the config says another

// What Gemma 2 and 3 share: four norms per layer, and windows in some layers.

/// Attention and gated MLP, each with a norm before and after.
ModelWeights sandwich_norm_weights(const ModelSpec& spec) {
  Tensors layer;
  add_attention(layer, spec);
  add_gated_mlp(layer, spec);
  for (const char* name :
       {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"})
    add_norm(layer, name, spec.hidden_size);
  return decoder_weights(spec, std::move(layer));
}

/// Norms, activation, biases and window of Gemma 2 and 3; of every `period` layers the last one attends fully.
void read_sandwich(Fields& config, ModelSpec& spec, std::int64_t default_window, std::int64_t period) {
  spec.norm = NormKind::GemmaRmsNorm;
  spec.scales_embedding = true;
  spec.norm_placement = NormPlacement::Sandwich;
  spec.activation = read_activation(config, "hidden_activation", "gelu_pytorch_tanh");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
  spec.sliding_window = config.optional_integer("sliding_window", kPositionRange).value_or(default_window);
  read_sliding_layers(config, spec, spec.num_hidden_layers - spec.num_hidden_layers / period);
}

// Gemma 2: norms before and after attention and MLP; every other layer, the first included, attends within a window.
// Source of defaults: transformers Gemma2Config.

constexpr std::int64_t kGemma2Period = 2;

void read_gemma2(Fields& config, ModelSpec& spec) {
  read_decoder(
      config, spec,
      {.num_key_value_heads = 4, .head_dim = 256, .max_position_embeddings = 8192, .tie_word_embeddings = true});
  read_sandwich(config, spec, kGemmaWindow, kGemma2Period);
  // on by default (30 and 50); an explicit null switches them off
  const auto is_on = [&](const char* key) { return !config.has(key) || config.optional_number(key).has_value(); };
  spec.caps_logits = is_on("final_logit_softcapping");
  spec.caps_scores = is_on("attn_logit_softcapping");
}

// Gemma 3, the text model: Gemma 2 with a norm per head on q and k, and five windowed layers to one full layer.
// The larger ones are published inside a multimodal model, whose text_config holds only what differs from the defaults.
// Source of defaults: transformers Gemma3TextConfig.

constexpr std::int64_t kGemma3Period = 6;  // sliding_window_pattern

void read_gemma3(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec,
               {.num_attention_heads = 8,
                .num_key_value_heads = 4,
                .head_dim = 256,
                .vocab_size = 262208,
                .max_position_embeddings = 131072,
                .tie_word_embeddings = true});
  spec.qk_norm = QkNorm::PerHead;
  read_sandwich(config, spec, kGemmaWindow,
                config.optional_integer("sliding_window_pattern", kLayerRange).value_or(kGemma3Period));
}

}  // namespace

constinit const Family kGemma{.name = "gemma",
                              .model_type = "gemma",
                              .architecture = "GemmaForCausalLM",
                              .read = read_gemma,
                              .list = pre_norm_weights};
constinit const Family kGemma2{.name = "gemma2",
                               .model_type = "gemma2",
                               .architecture = "Gemma2ForCausalLM",
                               .read = read_gemma2,
                               .list = sandwich_norm_weights};
constinit const Family kGemma3Text{.name = "gemma3",
                                   .model_type = "gemma3_text",
                                   .architecture = "Gemma3ForCausalLM",
                                   .read = read_gemma3,
                                   .list = sandwich_norm_weights};

}  // namespace gpuplan
