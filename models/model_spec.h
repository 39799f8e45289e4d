// What is trained: the shape of a decoder language model, read from a Hugging Face config.json or from data/models.
// Everything else (tensors, ops, bytes) is derived from it by the family (models/families.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "models/checkpoint_quant.h"
#include "models/mixers.h"
#include "models/rope.h"
#include "models/vision_spec.h"

namespace gpuplan {

enum class NormKind : std::uint8_t { RmsNorm, GemmaRmsNorm, LayerNorm };
enum class MlpKind : std::uint8_t { Gated, Plain };
enum class PositionKind : std::uint8_t { Rope, Learned, Alibi, RelativeBias, None };
/// Where a layer's norms stand: before each branch (Llama), before and after it (Gemma 2), after it (OLMo 2), or after
/// the residual sum (BERT, OPT-350m).
enum class NormPlacement : std::uint8_t { Pre, Sandwich, PostBranch, PostResidual };
/// Parallel: attention and MLP read the same residual and are added together (GPT-J, Falcon, GPT-NeoX).
enum class ResidualKind : std::uint8_t { Sequential, ParallelOneNorm, ParallelTwoNorms };
enum class QkNorm : std::uint8_t { None, PerHead, Full, Unweighted };
enum class HeadKind : std::uint8_t { LanguageModel, Pooler };  // Pooler: an encoder, whose task head is small

/// Mixture of experts; no experts: a dense model. Sizes are of one expert.
struct MoeSpec {
  std::int64_t num_experts{}, experts_per_token{}, intermediate_size{};
  std::int64_t shared_intermediate_size{};  // of the always active expert, 0: none
  std::int64_t latent_size{};               // the routed experts' input and output, between two projections; 0: none
  std::int64_t num_dense_layers{};          // first layers with a dense MLP (DeepSeek)
  std::int64_t layer_step = 1;              // of the others every how-manieth has experts (Llama 4 Maverick: 2)
  bool has_shared_gate{};                   // a sigmoid switch on the shared expert (Qwen)
  bool has_router_bias{}, has_router_correction{}, has_expert_bias{};
  bool has_branch_norms{};  // experts beside the shared MLP have norms of their own (Gemma 4)
  bool is_stacked{};        // experts are one 3-D parameter in the checkpoint already (Qwen3.5)
  bool computes_all{};      // every expert runs on every token (Llama 4's eager code)
  bool is_present() const { return num_experts > 0; }
  bool is_moe_layer(std::int64_t i) const { return is_present() && i >= num_dense_layers && (i + 1) % layer_step == 0; }
  friend bool operator==(const MoeSpec&, const MoeSpec&) = default;
};

/// DeepSeek's multi-head latent attention: keys and values are expanded from a low-rank latent.
struct LatentAttention {
  std::int64_t q_rank{}, kv_rank{}, nope_head_dim{}, rope_head_dim{}, v_head_dim{};  // q_rank 0: full q_proj
  bool is_present() const { return kv_rank > 0; }
  friend bool operator==(const LatentAttention&, const LatentAttention&) = default;
};

/// DeBERTa's attention: beside scores of contents, scores of contents and relative positions. Every layer projects the
/// same table of positions, with the projections of the tokens or with two of its own.
struct RelativeScores {
  std::int64_t positions{};  // rows of the table
  bool content_to_position{}, position_to_content{}, shares_projections{};
  bool norms_table{};
  bool is_present() const { return positions > 0; }
  friend bool operator==(const RelativeScores&, const RelativeScores&) = default;
};

/// Attention of the layers without a window, where it differs from the others' (Gemma 4).
struct GlobalAttention {
  std::int64_t head_dim{}, num_key_value_heads{};
  bool keys_are_values{};  // k_proj makes both
  bool is_present() const { return head_dim > 0; }
  friend bool operator==(const GlobalAttention&, const GlobalAttention&) = default;
};

/// A second, narrow embedding, of which every layer adds a part of its own (Gemma 4 E).
struct LayerEmbedding {
  std::int64_t vocab_size{}, width{};  // width: of one layer's part
  bool is_present() const { return width > 0; }
  friend bool operator==(const LayerEmbedding&, const LayerEmbedding&) = default;
};

/// Several streams instead of one (Gemma 3n): AltUp (arXiv 2301.13310) keeps several, of which a layer works on
/// one and corrects the others; LAuReL (arXiv 2411.07501) adds a low-rank branch; the first layers' MLPs keep the
/// largest values of their gates alone (Spark Transformer, arXiv 2506.06644).
struct AlternatingUpdates {
  std::int64_t num_streams = 1;
  std::int64_t laurel_rank{}, num_sparse_layers{};
  bool is_present() const { return num_streams > 1; }
  friend bool operator==(const AlternatingUpdates&, const AlternatingUpdates&) = default;
};

/// The keys of the config that a model was read from, which plans and output folders repeat. They say what the other
/// members say, in one of several spellings: models that differ in their spelling alone are equal.
struct ConfigAsRead {
  std::shared_ptr<const nlohmann::json> keys;
  friend bool operator==(const ConfigAsRead&, const ConfigAsRead&) { return true; }
};

/// The architecture of one model. Counts are elements; a field a family does not have keeps its default.
struct ModelSpec {
  std::string name;          // short name: "llama-3-8b"
  std::string id;            // hub id: "meta-llama/Meta-Llama-3-8B", or the path it was read from
  std::string family;        // row of models/families.cpp: "llama", "qwen2", "gemma3", …
  std::string architecture;  // "LlamaForCausalLM"
  std::string model_type;    // "llama"
  std::string source;        // where the shape comes from: catalogue file, config.json path

  std::int64_t hidden_size{};
  std::int64_t num_hidden_layers{};
  std::int64_t num_attention_heads{};
  std::int64_t num_key_value_heads{};
  std::int64_t head_dim{};           // effective: stated or hidden / heads
  std::int64_t intermediate_size{};  // per branch of a gated MLP
  std::int64_t vocab_size{};
  std::int64_t max_position_embeddings{};
  std::int64_t learned_positions{};  // rows of a learned position table (gpt2), else 0
  std::int64_t sliding_window{};     // 0: full attention everywhere
  std::int64_t sliding_layers{};     // how many layers use the window (gemma 2/3: some; mistral: all)
  bool starts_with_global{};         // of every few layers the first has no window (ModernBERT), not the last

  NormKind norm = NormKind::RmsNorm;
  MlpKind mlp = MlpKind::Gated;
  PositionKind position = PositionKind::Rope;
  std::string activation = "silu";
  bool tie_word_embeddings{};
  bool has_qkv_bias{}, has_o_bias{}, has_mlp_bias{};
  bool has_head_bias{};           // lm_head (gpt-j, phi)
  QkNorm qk_norm = QkNorm::None;  // per head: two vectors of head_dim; full: of the projections' widths; llama 4: none
  NormPlacement norm_placement = NormPlacement::Pre;
  ResidualKind residual = ResidualKind::Sequential;
  bool has_embedding_norm{};  // bloom, bert
  bool has_final_norm = true;
  double rotary_fraction = 1;  // of head_dim that is rotated
  std::int64_t rotary_dims() const {
    return std::int64_t(double(head_dim) * rotary_fraction) / 2 * 2;
  }  // of a head, in pairs
  RopeSpec rope;
  double norm_epsilon = 1e-6;
  std::int64_t embedding_size{};    // width of the embedding table where projections follow it (opt-350m), else 0
  std::int64_t token_types{};       // rows of bert's segment table
  std::int64_t relative_buckets{};  // t5
  bool has_attention_gate{};        // q_proj makes a gate too, whose sigmoid multiplies attention's output (Qwen3-Next)
  bool has_value_norm{};            // without a weight (Gemma 4)
  bool has_sinks{};                 // one learned logit per head (gpt-oss)
  bool is_causal = true;            // false: bert
  bool materialises_scores{};       // the modelling code has no flash path: bloom, t5, custom ALiBi code
  bool keeps_16bit_logits{};        // the modelling code never upcasts them (Qwen-1, gpt_bigcode)
  bool has_fused_qkv{};             // one linear for q, k, v (phi-3 qkv_proj, gpt2 c_attn)
  bool has_fused_gate_up{};         // one linear for gate and up (phi-3)
  double residual_dropout{}, attention_dropout{};  // of the architecture itself (gpt2: 0.1), not of adapters
  double mlp_dropout{};                            // between activation and down projection (t5)
  bool caps_logits{}, caps_scores{};  // gemma 2: cap * tanh(x / cap) on the logits, on the attention scores
  bool keeps_fp32_residual{};         // the stream is fp32 whatever the weights are (Mamba)
  bool scales_embedding{};            // gemma: embedding output times sqrt(hidden)
  MoeSpec moe;
  LatentAttention latent;
  RelativeScores relative_scores;
  GlobalAttention global;
  LayerEmbedding layer_embedding;
  AlternatingUpdates altup;
  std::int64_t num_shared_kv_layers{};  // last ones, which take keys and values of earlier layers
  bool doubles_shared_mlp{};            // whose MLP is twice as wide
  std::vector<Mixer> mixers;            // of each layer; empty: all attend
  Mamba1Spec mamba1;
  Mamba2Spec mamba2;
  DeltaNetSpec delta_net;
  ShortConvolutionSpec short_convolution;
  HeadKind head = HeadKind::LanguageModel;
  std::string text_family;                          // of a vision-language model: whose layers its language model has
  std::int64_t idle_parameters{};                   // of parts that are loaded and never run: what hears and speaks
  VisionSpec vision;                                // of a vision-language model: in front of the layers
  std::int64_t num_encoder_layers{};                // t5: then num_hidden_layers counts the decoder's
  std::optional<std::int64_t> recorded_parameters;  // the catalogue's exact count, for checks and reports
  CheckpointQuant checkpoint;                       // how its weights are stored before a recipe quantises them
  Unpacking unpacking;                              // of a checkpoint that is planned in 16 bit
  ConfigAsRead config;

  /// Gives what a layer hands to the next one, per token.
  std::int64_t stream_width() const { return altup.num_streams * hidden_size; }
  std::int64_t q_width() const { return num_attention_heads * head_dim; }
  std::int64_t kv_width() const { return num_key_value_heads * head_dim; }
  std::int64_t value_width() const {
    return latent.is_present() ? num_key_value_heads * latent.v_head_dim : kv_width();
  }
  std::int64_t embedding_width() const { return embedding_size > 0 ? embedding_size : hidden_size; }
  /// Width of attention's output, the input of o_proj.
  std::int64_t context_width() const {
    return latent.is_present() ? num_attention_heads * latent.v_head_dim : q_width();
  }
  /// Says whether a layer uses the window: all of them, or all but the last of every few (gemma 2: 2, gemma 3: 6), or
  /// all but the first of every few.
  bool has_window(std::int64_t layer) const {
    const std::int64_t full = num_hidden_layers - sliding_layers;
    if (sliding_layers == 0 || full <= 0) return sliding_layers > 0;
    if (starts_with_global) return layer % ((num_hidden_layers + full - 1) / full) != 0;
    return (layer + 1) % (num_hidden_layers / full) != 0;
  }
  /// Says whether some layers are recurrent, so that their memory and time grow with the length instead of its square.
  bool is_hybrid() const { return !mixers.empty(); }
  bool has_lone_mlps() const {
    return num_layers_with([](Mixer mixer) { return mixer == Mixer::None; }) > 0;
  }
  Mixer mixer(std::int64_t layer) const { return mixers.empty() ? Mixer::Attention : mixers[std::size_t(layer)]; }
  std::int64_t num_layers_with(bool (*accepts)(Mixer)) const {
    return mixers.empty() ? accepts(Mixer::Attention) * num_hidden_layers
                          : std::int64_t(std::count_if(mixers.begin(), mixers.end(), accepts));
  }
  /// Units between embedding and head: encoder layers or the vision tower's, the bridge to the decoder, decoder layers.
  std::int64_t num_layers() const {
    if (vision.is_present()) return vision.num_units() + num_hidden_layers;
    return num_encoder_layers > 0 ? num_encoder_layers + 1 + num_hidden_layers : num_hidden_layers;
  }

  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

/// The model with the attention that its layers without a window have.
ModelSpec global_of(const ModelSpec& model);
/// The tower as a model of its own: what the ledger reads of its blocks.
ModelSpec tower_of(const VisionSpec& vision);

}  // namespace gpuplan
