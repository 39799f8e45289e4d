// Models of Mamba layers: the first Mamba or Mamba-2 alone (Mamba, Falcon-Mamba, Codestral Mamba), or Mamba-2 beside
// layers that attend, with an MLP in each (Bamba). Source of names and defaults: transformers MambaConfig,
// FalconMambaConfig, Mamba2Config, BambaConfig and their models.
#include <fmt/format.h>

#include "models/families/mixers.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

// Mamba alone: a layer is one norm and the mixer.

void read_lone_mixers(Fields& config, ModelSpec& spec, Mixer mixer, const DecoderDefaults& defaults) {
  spec.hidden_size = config.optional_integer("hidden_size", kWidthRange).value_or(4096);
  spec.num_hidden_layers = config.optional_integer("num_hidden_layers", kLayerRange).value_or(64);
  spec.vocab_size = config.optional_integer("vocab_size", kVocabRange).value_or(*defaults.vocab_size);
  spec.max_position_embeddings = kPositionRange.most;  // none: the state has no length
  spec.tie_word_embeddings = config.optional_flag("tie_word_embeddings").value_or(defaults.tie_word_embeddings);
  spec.keeps_fp32_residual = config.optional_flag("residual_in_fp32").value_or(true);
  spec.position = PositionKind::None;
  spec.mixers.assign(std::size_t(spec.num_hidden_layers), mixer);
}

ModelWeights list_lone_mixers(const ModelSpec& spec) {
  ModelWeights weights;
  add_mixed_layers(weights, spec, "backbone.layers.{}.", [&](Mixer mixer, bool) {
    Tensors layer;
    add_norm(layer, "norm", spec.hidden_size);
    mixer == Mixer::Mamba1 ? add_mamba1(layer, spec, "mixer") : add_mamba2(layer, spec, "mixer");
    return layer;
  });
  weights.kinds.front().has_mlp = false;
  add_embedding(weights, spec, "backbone.embeddings");
  add_norm_of(weights.after, spec, "backbone.norm_f");
  add_head(weights, spec);
  return weights;
}

void read_mamba1_model(Fields& config, ModelSpec& spec) {
  read_lone_mixers(config, spec, Mixer::Mamba1, {.vocab_size = 50280, .tie_word_embeddings = true});
  Mamba1Spec& m = spec.mamba1;
  const std::int64_t expanded = config.optional_integer("expand", kConvRange).value_or(2) * spec.hidden_size;
  m.inner_width = config.optional_integer("intermediate_size", kWidthRange).value_or(expanded);
  m.state_size = config.optional_integer("state_size", kStateRange).value_or(16);
  m.conv_kernel = config.optional_integer("conv_kernel", kConvRange).value_or(4);
  const nlohmann::json* rank = config.find("time_step_rank");
  m.time_rank = rank && rank->is_number() ? config.integer("time_step_rank", kWidthRange)  // or "auto"
                                          : (spec.hidden_size + 15) / 16;
  m.has_conv_bias = config.optional_flag("use_conv_bias").value_or(true);
  m.has_proj_bias = config.optional_flag("use_bias").value_or(false);
  if (m.inner_width > kWidthRange.most) config.report("expand", "the inner width is wider than can be counted");
  spec.num_attention_heads = spec.num_key_value_heads = 1;  // no attention
  spec.head_dim = m.state_size;
}

void read_mamba2_model(Fields& config, ModelSpec& spec) {
  read_lone_mixers(config, spec, Mixer::Mamba2, {.vocab_size = 32768});
  Mamba2Spec& m = spec.mamba2;
  m.num_heads = config.optional_integer("num_heads", kHeadRange).value_or(128);
  m.head_dim = config.optional_integer("head_dim", kHeadRange).value_or(64);
  m.num_groups = config.optional_integer("n_groups", kHeadRange).value_or(8);
  m.state_size = config.optional_integer("state_size", kStateRange).value_or(128);
  m.conv_kernel = config.optional_integer("conv_kernel", kConvRange).value_or(4);
  m.chunk = config.optional_integer("chunk_size", kChunkRange).value_or(256);
  m.has_conv_bias = config.optional_flag("use_conv_bias").value_or(true);
  m.has_proj_bias = config.optional_flag("use_bias").value_or(false);
  spec.num_attention_heads = spec.num_key_value_heads = m.num_heads;  // no attention: of the recurrence
  spec.head_dim = m.head_dim;
  const std::int64_t inner = config.optional_integer("expand", kConvRange).value_or(2) * spec.hidden_size;
  if (!config.has_problems() && m.inner_width() != inner)
    config.report("num_heads",
                  fmt::format("{} heads of {} do not fill an inner width of {}", m.num_heads, m.head_dim, inner));
  check_mamba2(config, spec, "num_heads");
}

// Bamba: a gated MLP in every layer; those of attn_layer_indices attend.

void read_bamba(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec,
               {.num_attention_heads = 32,
                .num_key_value_heads = 8,
                .vocab_size = 128000,
                .intermediate_size = 14336,
                .max_position_embeddings = 262144});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
  spec.has_mlp_bias = config.optional_flag("mlp_bias").value_or(false);
  spec.rotary_fraction = read_rotary_fraction(config, "partial_rotary_factor", 0.5);
  std::vector<std::int64_t> attending;
  config.optional("attn_layer_indices", attending);
  spec.mixers.assign(std::size_t(spec.num_hidden_layers), Mixer::Mamba2);
  for (const std::int64_t layer : attending) {
    if (layer < 0 || layer >= spec.num_hidden_layers)
      return config.report("attn_layer_indices", fmt::format("{} is no layer", layer));
    spec.mixers[std::size_t(layer)] = Mixer::Attention;
  }
  read_mamba2(config, spec, read_expanded_width(config, spec));
}

}  // namespace

constinit const Family kMamba{.name = "mamba",
                              .model_type = "mamba",
                              .architecture = "MambaForCausalLM",
                              .read = read_mamba1_model,
                              .list = list_lone_mixers};
constinit const Family kFalconMamba{.name = "falcon_mamba",
                                    .model_type = "falcon_mamba",
                                    .architecture = "FalconMambaForCausalLM",
                                    .read = read_mamba1_model,
                                    .list = list_lone_mixers};
constinit const Family kMamba2{.name = "mamba2",
                               .model_type = "mamba2",
                               .architecture = "Mamba2ForCausalLM",
                               .read = read_mamba2_model,
                               .list = list_lone_mixers};
constinit const Family kBamba{.name = "bamba",
                              .model_type = "bamba",
                              .architecture = "BambaForCausalLM",
                              .read = read_bamba,
                              .list = list_mamba2_decoder};

}  // namespace gpuplan
