// The weight tensors of a model, named as in its Hugging Face checkpoint. One list serves parameter counts,
// sharding, quantisation, adapters, safetensors checks and the executor's loader.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/model_spec.h"

namespace gpuplan {

/// Names what a tensor is for; decides whether it is quantised, adapted, or decayed. Stacked: a 3-D parameter or a bare
/// matrix that no torch Linear multiplies (fused experts, DeepSeek's router, what Mamba's fused kernel takes): trained
/// in full fine-tuning, never adapted or quantised. Recurrence: convolution, decay and skip of a recurrent mixer, the
/// same.
enum class WeightRole : std::uint8_t { Embedding, Position, Norm, Linear, Bias, Head, Stacked, Recurrence };

/// Says which matmul of a layer a Linear (or Stacked) tensor serves; the ledger finds its weights by it.
enum class LinearSlot : std::uint8_t {
  None,
  Q,
  K,
  V,
  Qkv,
  O,
  QDown,
  QUp,
  KvDown,
  KvUp,  // latent attention
  PositionQ,
  PositionK,  // of relative positions
  CrossQ,
  CrossK,
  CrossV,
  CrossO,
  MixIn,
  MixGate,
  MixBeta,
  MixDecay,
  MixGateDown,
  MixDecayDown,  // in front of these two, where they go through a narrow width
  MixOut,        // recurrent mixers
  MergeUp,
  MergeDown,  // projector of image features
  LayerGate,
  LayerOut,  // of a layer's own embedding
  StreamRouter,
  StreamPredict,
  StreamCorrect,  // of several streams
  BranchDown,
  BranchUp,  // of a low-rank branch beside attention
  Gate,
  Up,
  GateUp,
  Down,
  Router,
  ExpertGate,
  ExpertUp,
  ExpertGateUp,
  ExpertDown,
  SharedGate,
  SharedUp,
  SharedGateUp,
  SharedDown,
  SharedSwitch,
  LatentIn,
  LatentOut,
  Count
};
constexpr std::size_t kNumLinearSlots = std::size_t(LinearSlot::Count);

/// Says which part of a vision-language model a tensor is of; of other models all are of the language model. Idle:
/// towers that are loaded, frozen and never run.
enum class ModelPart : std::uint8_t { Language, Projector, Tower, Idle };

/// One tensor of the checkpoint, or `copies` alike ones. `name` is relative to its unit: "self_attn.q_proj.weight",
/// "model.embed_tokens.weight"; with copies a {} in it counts them: "mlp.experts.{}.up_proj.weight".
struct WeightTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // of one copy, as stored: a Linear is [out, in], GPT-2's Conv1D is [in, out]
  WeightRole role{};
  std::int64_t in{}, out{};  // features of a Linear, Stacked or Head (0 otherwise)
  LinearSlot slot{};
  std::int64_t copies = 1;
  ModelPart part{};
  bool is_subclass{};                // its module is of a class derived from torch's Linear
  bool keeps_dtype{};                // in 16 or 32 bit where the checkpoint is quantised
  bool is_frozen{};                  // not among the names that are trained (Recipe::trained)
  bool is_tied{};                    // a head that is the embedding; beside that stands a trained copy
  bool is_routed{};                  // of the routed experts: a token uses experts_per_token of num_experts
  std::vector<std::string> made_of;  // modules of the checkpoint that a library merges into this one ("gate_proj")
  std::int64_t elements() const;     // of all copies
};

/// One kind of layer. Position i of the model's order carries the number i - offset in `prefix`.
struct LayerKind {
  const char* name = "layer";  // for reports: "layer", "dense layer", "encoder layer"
  std::string prefix;          // "model.layers.{}."; without {} for a bridge
  std::int64_t offset = 0;
  std::vector<WeightTensor> tensors;
  Mixer mixer{};
  bool has_mlp = true;
  bool is_moe{}, is_causal = true, has_cross_attention{};
  bool has_attention_norm = true;  // false: attention reads the stream as it is (ModernBERT's first layer)
  bool is_bridge{};                // between encoder and decoder: final norm, then the decoder's embedding
  ModelPart part{};          // a projector is a bridge too: image features, then the embedding of the whole sequence
  bool is_windowed{};        // of a tower: attends within VisionSpec::window
  bool is_sparse{};          // keeps the largest values of its MLP's gate alone
  bool is_global{};          // has ModelSpec::global's attention
  bool is_before_trained{};  // stands in front of the first layer that trains something (Recipe::trained)
  bool makes_deepstack{}, reads_deepstack{};  // image features of a block that join a layer of the language model
  std::int64_t elements() const;
};

/// All tensors of a model. Layers of a kind are alike, so one of each is listed; tied heads appear once, as the
/// embedding.
struct ModelWeights {
  std::vector<WeightTensor> before;  // embedding (and learned positions)
  std::vector<LayerKind> kinds;
  std::vector<std::uint8_t> order;       // kind of each layer, first to last
  std::vector<WeightTensor> after;       // final norm, and the head when it is not tied
  std::vector<WeightTensor> classifier;  // of a classifier alone, between `after` and its scores

  std::int64_t num_layers() const { return std::int64_t(order.size()); }
  std::int64_t num_of_kind(std::size_t kind) const;
  const LayerKind& layer(std::int64_t position) const { return kinds[order[std::size_t(position)]]; }
  std::int64_t before_elements() const;
  std::int64_t after_elements() const;
  std::int64_t part_elements(ModelPart part) const;
  /// Exact parameter count of the model.
  std::int64_t total_elements() const;
  /// Parameters that one token meets: of the routed experts only as many as it is sent to.
  std::int64_t active_elements(const MoeSpec& moe) const;
};

/// Lists the tensors of `model`. Throws InputError when its family is not modelled yet.
ModelWeights list_weights(const ModelSpec& model);

}  // namespace gpuplan
