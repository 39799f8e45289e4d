#include "models/families/mixers.h"
#include "base/narrow.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace gpuplan {
namespace {

const char* kind_name(const ModelSpec& spec, Mixer mixer, bool is_moe) {
  if (!spec.is_hybrid()) return "layer";
  switch (mixer) {
    case Mixer::Attention: return "attention layer";
    case Mixer::Mamba1: return "Mamba layer";
    case Mixer::Mamba2: return "Mamba-2 layer";
    case Mixer::DeltaNet: return "linear-attention layer";
    case Mixer::ShortConvolution: return "short-convolution layer";
    case Mixer::AttentionAndMamba2: return "layer";
    case Mixer::ImageAttention: return "layer that attends to images";
    case Mixer::None: return is_moe ? "MoE layer" : "MLP layer";
  }
  return "layer";
}

void add_vector(Tensors& tensors, const std::string& name, std::int64_t width) {
  tensors.push_back({.name = name, .shape = {width}, .role = WeightRole::Recurrence});
}

/// Weight [channels, 1, kernel] of a torch Conv1d with a kernel per channel.
void add_convolution(Tensors& tensors, const std::string& name, std::int64_t channels, std::int64_t kernel,
                     bool has_bias) {
  tensors.push_back({.name = name + ".weight", .shape = {channels, 1, kernel}, .role = WeightRole::Recurrence});
  if (has_bias) tensors.push_back({.name = name + ".bias", .shape = {channels}, .role = WeightRole::Bias});
}

}  // namespace

void read_mixers(Fields& config, ModelSpec& spec, const char* key, std::span<const MixerName> names) {
  const nlohmann::json* list = config.find(key);
  if (!list || spec.num_hidden_layers == 0) return;
  const auto find = [&](const nlohmann::json& item) {
    return std::find_if(names.begin(), names.end(), [&](const MixerName& name) {
      return item.is_string() && item.get<std::string>() == name.text;
    });
  };
  if (!list->is_array() || std::ssize(*list) != spec.num_hidden_layers)
    return config.report(key, fmt::format("must name each of the {} layers", spec.num_hidden_layers));
  std::vector<std::string_view> known;
  for (const MixerName& name : names) known.push_back(name.text);
  spec.mixers.clear();
  for (const nlohmann::json& item : *list) {
    if (find(item) == names.end())
      return config.report(key, fmt::format("{} is not modelled; known: {}", item.dump(), fmt::join(known, ", ")));
    spec.mixers.push_back(find(item)->mixer);
  }
  if (std::ranges::all_of(spec.mixers, [](Mixer mixer) { return mixer == Mixer::Attention; })) spec.mixers.clear();
}

std::int64_t read_expanded_width(Fields& config, const ModelSpec& spec) {
  return config.optional_integer("mamba_expand", kConvRange).value_or(2) * spec.hidden_size;
}

namespace {

/// `mamba_d_head` may be "auto": what the heads leave of the inner width.
std::int64_t read_mamba_head(Fields& config, std::int64_t heads, std::int64_t inner) {
  const char* key = "mamba_d_head";
  if (const nlohmann::json* stated = config.find(key); stated && stated->is_number()) {
    const std::int64_t size = config.integer(key, kHeadRange);
    if (!config.has_problems() && size * heads != inner)
      config.report(key, fmt::format("{} heads of {} do not fill an inner width of {}", heads, size, inner));
    return size;
  }
  if (inner % heads != 0)
    config.report("mamba_n_heads", fmt::format("{} does not divide an inner width of {}", heads, inner));
  return inner / heads;
}

}  // namespace

void read_mamba2(Fields& config, ModelSpec& spec, std::int64_t inner_width) {
  Mamba2Spec& m = spec.mamba2;
  m.num_heads = config.optional_integer("mamba_n_heads", kHeadRange).value_or(128);
  m.head_dim = read_mamba_head(config, std::max<std::int64_t>(1, m.num_heads), inner_width);
  m.num_groups = config.optional_integer("mamba_n_groups", kHeadRange).value_or(1);
  m.state_size = config.optional_integer("mamba_d_state", kStateRange).value_or(256);
  m.conv_kernel = config.optional_integer("mamba_d_conv", kConvRange).value_or(4);
  m.chunk = config.optional_integer("mamba_chunk_size", kChunkRange).value_or(256);
  m.has_conv_bias = config.optional_flag("mamba_conv_bias").value_or(true);
  m.has_proj_bias = config.optional_flag("mamba_proj_bias").value_or(false);
  check_mamba2(config, spec, "mamba_n_heads");
}

void check_mamba2(Fields& config, const ModelSpec& spec, const char* heads_key) {
  const Mamba2Spec& m = spec.mamba2;
  if (config.has_problems()) return;
  if (m.num_heads % m.num_groups != 0)
    config.report(heads_key, fmt::format("{} heads are not divided by {} groups", m.num_heads, m.num_groups));
  if (m.inner_width() > kWidthRange.most || m.bc_width() > kWidthRange.most)
    config.report(heads_key, fmt::format("{} heads of {} with {} groups of {} are wider than {}", m.num_heads,
                                         m.head_dim, m.num_groups, m.state_size, kWidthRange.most));
}

void add_mamba2(Tensors& tensors, const ModelSpec& spec, const std::string& module) {
  const Mamba2Spec& m = spec.mamba2;
  add_linear(tensors, LinearSlot::MixIn, module + ".in_proj", spec.hidden_size, m.projected_width(), m.has_proj_bias);
  add_convolution(tensors, module + ".conv1d", m.conv_channels(), m.conv_kernel, m.has_conv_bias);
  for (const char* name : {".dt_bias", ".A_log", ".D"}) add_vector(tensors, module + name, m.num_heads);
  if (m.has_norm) add_norm(tensors, module + ".norm", m.inner_width());
  const auto first = std::ssize(tensors);
  add_linear(tensors, LinearSlot::MixOut, module + ".out_proj", m.inner_width(), spec.hidden_size, m.has_proj_bias);
  tensors[std::size_t(first)].role = WeightRole::Stacked;
}

void add_mamba1(Tensors& tensors, const ModelSpec& spec, const std::string& module) {
  const Mamba1Spec& m = spec.mamba1;
  const auto add_bare = [&](LinearSlot slot, const char* name, std::int64_t in, std::int64_t out, bool has_bias) {
    const auto first = std::ssize(tensors);
    add_linear(tensors, slot, module + name, in, out, has_bias);
    if (!m.has_norms) tensors[std::size_t(first)].role = WeightRole::Stacked;
  };
  add_linear(tensors, LinearSlot::MixIn, module + ".in_proj", spec.hidden_size, 2 * m.inner_width, m.has_proj_bias);
  add_convolution(tensors, module + ".conv1d", m.inner_width, m.conv_kernel, m.has_conv_bias);
  add_bare(LinearSlot::MixBeta, ".x_proj", m.inner_width, m.selected_width(), false);
  add_bare(LinearSlot::MixDecay, ".dt_proj", m.time_rank, m.inner_width, true);
  tensors.push_back(
      {.name = module + ".A_log", .shape = {m.inner_width, m.state_size}, .role = WeightRole::Recurrence});
  add_vector(tensors, module + ".D", m.inner_width);
  add_bare(LinearSlot::MixOut, ".out_proj", m.inner_width, spec.hidden_size, m.has_proj_bias);
  if (!m.has_norms) return;
  add_norm(tensors, module + ".dt_layernorm", m.time_rank);
  add_norm(tensors, module + ".b_layernorm", m.state_size);
  add_norm(tensors, module + ".c_layernorm", m.state_size);
}

void add_delta_net(Tensors& tensors, const ModelSpec& spec, const std::string& module) {
  const DeltaNetSpec& d = spec.delta_net;
  const std::int64_t hidden = spec.hidden_size, heads = d.num_value_heads;
  if (d.has_fused_projections) {
    add_linear(tensors, LinearSlot::MixIn, module + ".in_proj_qkvz", hidden, d.conv_channels() + d.value_width());
    add_linear(tensors, LinearSlot::MixBeta, module + ".in_proj_ba", hidden, 2 * heads);
  } else {
    add_linear(tensors, LinearSlot::MixIn, module + ".in_proj_qkv", hidden, d.conv_channels());
    add_linear(tensors, LinearSlot::MixGate, module + ".in_proj_z", hidden, d.value_width());
    add_linear(tensors, LinearSlot::MixBeta, module + ".in_proj_b", hidden, heads);
    add_linear(tensors, LinearSlot::MixDecay, module + ".in_proj_a", hidden, heads);
  }
  add_convolution(tensors, module + ".conv1d", d.conv_channels(), d.conv_kernel, false);
  for (const char* name : {".dt_bias", ".A_log"}) add_vector(tensors, module + name, heads);
  add_norm(tensors, module + ".norm", d.value_dim);
  add_linear(tensors, LinearSlot::MixOut, module + ".out_proj", d.value_width(), hidden);
}

void add_short_convolution(Tensors& tensors, const ModelSpec& spec, const std::string& module) {
  const std::int64_t hidden = spec.hidden_size;
  const bool has_bias = spec.short_convolution.has_bias;
  add_linear(tensors, LinearSlot::MixIn, module + ".in_proj", hidden, 3 * hidden, has_bias);
  add_convolution(tensors, module + ".conv", hidden, spec.short_convolution.kernel, has_bias);
  add_linear(tensors, LinearSlot::MixOut, module + ".out_proj", hidden, hidden, has_bias);
}

void add_mixed_layers(ModelWeights& weights, const ModelSpec& spec, const std::string& prefix, const ListLayer& list) {
  const bool has_lone_mlps = spec.has_lone_mlps();
  for (std::int64_t i = 0; i < spec.num_hidden_layers; ++i) {
    const Mixer mixer = spec.mixer(i);
    const bool has_mlp = !has_lone_mlps || mixer == Mixer::None, is_moe = has_mlp && spec.moe.is_moe_layer(i);
    auto kind = std::find_if(weights.kinds.begin(), weights.kinds.end(),
                             [&](const LayerKind& known) { return known.mixer == mixer && known.is_moe == is_moe; });
    if (kind == weights.kinds.end())
      kind = weights.kinds.insert(kind, {.name = kind_name(spec, mixer, is_moe),
                                         .prefix = prefix,
                                         .tensors = list(mixer, is_moe),
                                         .mixer = mixer,
                                         .has_mlp = has_mlp,
                                         .is_moe = is_moe});
    weights.order.push_back(narrow<std::uint8_t>(kind - weights.kinds.begin()));
  }
}

namespace {

Tensors mamba2_decoder_layer(const ModelSpec& spec, Mixer mixer) {
  const std::int64_t hidden = spec.hidden_size, width = spec.intermediate_size;
  Tensors layer;
  if (attends(mixer)) add_attention(layer, spec);
  if (has_mamba2(mixer)) add_mamba2(layer, spec, "mamba");
  add_linear(layer, LinearSlot::Gate, "feed_forward.gate_proj", hidden, width, spec.has_mlp_bias);
  add_linear(layer, LinearSlot::Up, "feed_forward.up_proj", hidden, width, spec.has_mlp_bias);
  add_linear(layer, LinearSlot::Down, "feed_forward.down_proj", width, hidden, spec.has_mlp_bias);
  add_norm(layer, "input_layernorm", hidden);
  add_norm(layer, "pre_ff_layernorm", hidden);
  return layer;
}

}  // namespace

ModelWeights list_mamba2_decoder(const ModelSpec& spec) {
  ModelWeights weights;
  add_mixed_layers(weights, spec, "model.layers.{}.",
                   [&](Mixer mixer, bool) { return mamba2_decoder_layer(spec, mixer); });
  add_embedding(weights, spec, "model.embed_tokens");
  add_norm_of(weights.after, spec, "model.final_layernorm");
  add_head(weights, spec);
  return weights;
}

}  // namespace gpuplan
