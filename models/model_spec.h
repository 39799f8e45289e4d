// What is trained: the shape of a decoder language model, read from a Hugging Face config.json or from data/models.
// Everything else (tensors, ops, bytes) is derived from it by the family (models/families.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gpuplan {

enum class NormKind : std::uint8_t { RmsNorm, GemmaRmsNorm, LayerNorm };
enum class MlpKind : std::uint8_t { Gated, Plain };
enum class PositionKind : std::uint8_t { Rope, Learned };

/// The architecture of one model. Counts are elements; a field a family does not have keeps its default.
struct ModelSpec {
  std::string name;           // short name: "llama-3-8b"
  std::string id;             // hub id: "meta-llama/Meta-Llama-3-8B", or the path it was read from
  std::string family;         // row of models/families.cpp: "llama", "qwen2", "gemma3", …
  std::string architecture;   // "LlamaForCausalLM"
  std::string model_type;     // "llama"
  std::string source;         // where the shape comes from: catalogue file, config.json path

  std::int64_t hidden_size{};
  std::int64_t num_hidden_layers{};
  std::int64_t num_attention_heads{};
  std::int64_t num_key_value_heads{};
  std::int64_t head_dim{};            // effective: stated or hidden / heads
  std::int64_t intermediate_size{};   // per branch of a gated MLP
  std::int64_t vocab_size{};
  std::int64_t max_position_embeddings{};
  std::int64_t learned_positions{};   // rows of a learned position table (gpt2), else 0
  std::int64_t sliding_window{};      // 0: full attention everywhere
  std::int64_t sliding_layers{};      // how many layers use the window (gemma 2/3: some; mistral: all)

  NormKind norm = NormKind::RmsNorm;
  MlpKind mlp = MlpKind::Gated;
  PositionKind position = PositionKind::Rope;
  std::string activation = "silu";
  bool tie_word_embeddings{};
  bool has_qkv_bias{}, has_o_bias{}, has_mlp_bias{};
  bool has_qk_norm{};                 // per head: two vectors of head_dim
  bool has_post_norms{};              // gemma 2/3: norms after attention and MLP too
  bool has_fused_qkv{};               // one linear for q, k, v (phi-3 qkv_proj, gpt2 c_attn)
  bool has_fused_gate_up{};           // one linear for gate and up (phi-3)
  double residual_dropout{}, attention_dropout{};    // of the architecture itself (gpt2: 0.1), not of adapters
  bool caps_logits{}, caps_scores{};  // gemma 2: cap * tanh(x / cap) on the logits, on the attention scores
  bool scales_embedding{};            // gemma: embedding output times sqrt(hidden)
  std::optional<std::int64_t> recorded_parameters;   // the catalogue's exact count, for checks and reports

  std::int64_t q_width() const { return num_attention_heads * head_dim; }
  std::int64_t kv_width() const { return num_key_value_heads * head_dim; }

  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

}  // namespace gpuplan
