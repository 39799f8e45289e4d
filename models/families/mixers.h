// Layers whose tokens are mixed by a recurrence: their tensors, and models that have several kinds of layers in turn.
#pragma once

#include <functional>
#include <span>

#include "models/families/decoder.h"

namespace gpuplan {

/// Says how configs spell a mixer in their list of layers.
struct MixerName {
  std::string_view text;
  Mixer mixer;
};

/// The list under `key`, one name per layer; empty when the config has none. Sets nothing where all layers attend.
void read_mixers(Fields& config, ModelSpec& spec, const char* key, std::span<const MixerName> names);

/// Bounds of Mamba-2's and delta nets' sizes: far above any model, products stay countable.
inline constexpr IntRange kStateRange{1, 1 << 12};
inline constexpr IntRange kConvRange{1, 64};
inline constexpr IntRange kChunkRange{1, 1 << 14};

/// mamba_expand times the width.
std::int64_t read_expanded_width(Fields& config, const ModelSpec& spec);
/// mamba_n_heads, mamba_d_head and their like, as Granite and Falcon-H1 spell them; heads fill `inner_width`.
void read_mamba2(Fields& config, ModelSpec& spec, std::int64_t inner_width);
/// Reports heads that groups do not divide, and an inner width beyond what can be counted.
void check_mamba2(Fields& config, const ModelSpec& spec, const char* heads_key);
/// in_proj, conv1d, x_proj, dt_proj, A_log, D and out_proj under `module`. All but the first go into the fused kernel,
/// but where norms stand between them: then they are linears as others.
void add_mamba1(Tensors& tensors, const ModelSpec& spec, const std::string& module);
/// in_proj, conv1d, dt_bias, A_log, D, norm and out_proj under `module`. The output projection is no module to adapt or
/// quantise: its weight goes into the fused kernel (huggingface/peft #2562).
void add_mamba2(Tensors& tensors, const ModelSpec& spec, const std::string& module);

/// in_proj, or its parts, conv1d, dt_bias, A_log, norm and out_proj under `module`.
void add_delta_net(Tensors& tensors, const ModelSpec& spec, const std::string& module);

/// in_proj, conv and out_proj under `module`.
void add_short_convolution(Tensors& tensors, const ModelSpec& spec, const std::string& module);

/// The tensors of a layer with this mixer, with experts or without.
using ListLayer = std::function<Tensors(Mixer mixer, bool is_moe)>;
/// One kind for each pair of mixer and MLP that the spec has, in the order of their first layers. Where some layers are
/// an MLP alone, the others are a mixer alone.
void add_mixed_layers(ModelWeights& weights, const ModelSpec& spec, const std::string& prefix, const ListLayer& list);

/// Layers of attention, Mamba-2 or both, and a gated MLP, in the names of Bamba and Falcon-H1.
ModelWeights list_mamba2_decoder(const ModelSpec& spec);

}  // namespace gpuplan
