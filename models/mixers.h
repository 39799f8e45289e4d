// What mixes the tokens of a layer: attention, or a recurrence whose cost per token does not grow with the length.
#pragma once

#include <cstdint>

namespace gpuplan {

/// AttentionAndMamba2: side by side on one normed input (Falcon-H1). ImageAttention: to the features of the row's
/// images alone (Llama 3.2 Vision). None: a layer that is an MLP alone (Nemotron-H).
enum class Mixer : std::uint8_t {
  Attention,
  Mamba1,
  Mamba2,
  DeltaNet,
  ShortConvolution,
  AttentionAndMamba2,
  ImageAttention,
  None
};

constexpr bool attends(Mixer mixer) { return mixer == Mixer::Attention || mixer == Mixer::AttentionAndMamba2; }
constexpr bool has_mamba1(Mixer mixer) { return mixer == Mixer::Mamba1; }
constexpr bool has_mamba2(Mixer mixer) { return mixer == Mixer::Mamba2 || mixer == Mixer::AttentionAndMamba2; }
constexpr bool has_delta_net(Mixer mixer) { return mixer == Mixer::DeltaNet; }
constexpr bool attends_to_images(Mixer mixer) { return mixer == Mixer::ImageAttention; }
constexpr bool has_short_convolution(Mixer mixer) { return mixer == Mixer::ShortConvolution; }

/// The first Mamba (Gu & Dao 2023, arXiv 2312.00752). Every channel of the inner width has a state of its own; B, C and
/// the time steps are projected from what the short convolution makes, the time steps through a low rank.
struct Mamba1Spec {
  std::int64_t inner_width{}, state_size{}, conv_kernel{}, time_rank{};
  bool has_conv_bias{}, has_proj_bias{};
  bool has_norms{};  // of the time steps, B and C, with weights (Jamba)
  std::int64_t state_elements() const { return inner_width * state_size; }
  std::int64_t selected_width() const { return time_rank + 2 * state_size; }
  friend bool operator==(const Mamba1Spec&, const Mamba1Spec&) = default;
};

/// Mamba-2 (Dao & Gu 2024, arXiv 2405.21060). A head carries a state [head_dim, state_size] from token to token; the
/// heads of a group share B and C. x, B and C pass a short causal convolution. The sequence is cut in chunks: within
/// one, tokens meet as in attention; between them, through the state.
struct Mamba2Spec {
  std::int64_t num_heads{}, head_dim{}, num_groups{}, state_size{}, conv_kernel{}, chunk{};
  bool has_conv_bias{}, has_proj_bias{};
  bool has_norm = true;  // of the gated output; else the gate alone
  std::int64_t inner_width() const { return num_heads * head_dim; }
  std::int64_t bc_width() const { return num_groups * state_size; }  // of B, and of C
  std::int64_t state_elements() const { return inner_width() * state_size; }
  std::int64_t conv_channels() const { return inner_width() + 2 * bc_width(); }
  /// z, x, B, C and a time step per head.
  std::int64_t projected_width() const { return inner_width() + conv_channels() + num_heads; }
  friend bool operator==(const Mamba2Spec&, const Mamba2Spec&) = default;
};

/// A gated delta net (Yang et al. 2024, arXiv 2412.06464). A value head carries a state [key_dim, value_dim], which a
/// token decays and corrects; several value heads share a key head. Queries, keys and values pass a short causal
/// convolution. Chunks as in Mamba-2; within one, the corrections are a triangular system.
struct DeltaNetSpec {
  std::int64_t num_key_heads{}, num_value_heads{}, key_dim{}, value_dim{}, conv_kernel{};
  std::int64_t gate_rank{};  // Kimi Delta Attention: decays are per channel, they and z through this width; 0: neither
  bool
      has_fused_projections{};  // of q, k, v and z, and of beta and decay (Qwen3-Next); else one each, q, k, v together
  std::int64_t key_width() const { return num_key_heads * key_dim; }
  std::int64_t value_width() const { return num_value_heads * value_dim; }
  std::int64_t decays() const { return gate_rank > 0 ? key_width() : num_value_heads; }
  std::int64_t state_elements() const { return num_value_heads * key_dim * value_dim; }
  std::int64_t conv_channels() const { return 2 * key_width() + value_width(); }
  friend bool operator==(const DeltaNetSpec&, const DeltaNetSpec&) = default;
};

/// A gated short convolution (LFM2): y = C conv(B x), all of the stream's width.
struct ShortConvolutionSpec {
  std::int64_t kernel{};
  bool has_bias{};
  friend bool operator==(const ShortConvolutionSpec&, const ShortConvolutionSpec&) = default;
};

}  // namespace gpuplan
