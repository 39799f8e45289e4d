// A model with the recipe's choice of what is trained: which linears carry adapters, which tensors are quantised, which
// are trained as full copies. Sizes are elements; dtypes come later (models/numerics.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "models/framework.h"
#include "models/layer_graph.h"
#include "models/model_spec.h"
#include "models/numerics.h"
#include "models/recipe.h"
#include "models/weights.h"

namespace gpuplan {

/// Names what one tensor of the training state is.
enum class StateKind : std::uint8_t {
  Frozen,         // frozen linear in the frozen dtype
  FrozenEnd,      // frozen norm, embedding, head, bias
  Quantised,      // frozen linear in block-quantised storage
  AdapterBuffer,  // of adapters, and trained by nobody; whole on every rank
  Trained,        // weight trained by full fine-tuning
  Adapter,        // parameters of adapters
  SavedCopy
};  // modules_to_save: trainable copy beside a frozen original

constexpr bool is_trained(StateKind kind) { return kind >= StateKind::Trained; }

struct StateTensor {
  StateKind kind{};
  std::int64_t rows{}, cols{};  // cols 1 for vectors
  std::int64_t copies = 1;      // experts are alike
  std::uint16_t tensor = 0;     // of the unit's weights, which it is or belongs to
  WeightUse use = WeightUse::Tensor;
  bool is_stack{};       // the copies are one parameter
  bool is_of_experts{};  // of the module that holds router and experts, or of its adapters
  bool is_of_block{};    // of a linear of a block, or of its adapters; false: of an embedding, a head, a norm
  bool is_partial{};     // ranks that share the layer hold it whole, and each has a part of the sum of its gradient
  bool is_linear{};      // a linear's own weight, trained: its gradient may be projected
  bool is_routed{};      // of the experts that tokens are sent to, or of their adapters
  bool rests{};          // trained in other steps: it has optimizer states, and no gradient
  std::int64_t elements() const { return rows * cols * copies; }
  std::int64_t num_parameters() const { return is_stack ? 1 : copies; }
  std::int64_t elements_per_parameter() const { return is_stack ? elements() : rows * cols; }
};

/// Says which side of a linear [out, in] the ranks that share a layer divide: Column its outputs, Row its inputs. None:
/// it is whole on each.
enum class Cut : std::uint8_t { None, Column, Row };

/// A linear of a layer (or the head) as the ledger needs it. `weight` indexes LayerKind::tensors.
struct LinearRef {
  const char* name = "";
  std::uint8_t weight = 0xff, bias = 0xff;
  std::int64_t in{}, out{};
  Dim in_dim{}, out_dim{};
  bool is_trained{}, is_quantised{}, is_adapted{};
  std::int64_t rank{};                             // of its adapter
  std::int64_t block{};                            // of adapters that divide its input; 0: none do
  bool scales_input{};                             // of adapters that scale, its input instead of its output
  std::int64_t copies = 1;                         // experts
  ExpertProduct product = ExpertProduct::LoopAll;  // of those
  Cut cut{};
  bool merges_adapter{};  // it is multiplied with its adapter added (PEFT's ParamWrapper)
  bool exists() const { return in > 0; }
};

/// The norms that our own executor runs, by place.
enum class NormSlot : std::uint8_t { None, Attention, Mlp, Q, K, Final, Count };

/// The linears of one kind of layer, by slot, and where its norms' weights are (0xff: none).
struct LayerLinears {
  std::array<LinearRef, kNumLinearSlots> by_slot;
  std::array<std::uint8_t, std::size_t(NormSlot::Count)> norms{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  bool trains_norms{};
  std::uint8_t norm(NormSlot slot) const { return norms[std::size_t(slot)]; }
  const LinearRef& operator[](LinearSlot slot) const { return by_slot[std::size_t(slot)]; }
  LinearRef& operator[](LinearSlot slot) { return by_slot[std::size_t(slot)]; }
};

using StateList = std::vector<StateTensor>;

/// Says how ranks share each layer of a model whose sizes are of one of them (models/rank_model.h).
struct LayerSplit {
  std::int64_t ways = 1;
  bool splits_sequence = false;   // between products a rank has its part of the sequence
  std::int64_t context_ways = 1;  // each has as much of the sequence, whose keys and values all see
  ContextExchange context_exchange{};
  std::int64_t expert_ways = 1;      // each has as many of the experts
  std::int64_t expert_cut = 1;       // … and as much of each
  std::int64_t expert_machines = 1;  // on which those that share them stand
  bool experts_see_all = false;      // those that share each expert gather the tokens of all, and route them alike
};

/// One model under one recipe; made once, then read by every plan.
struct TrainedModel {
  ModelSpec spec, global, tower;  // global: of layers without a window; tower: of spec.vision
  ImageGrid image;                // of one image of the recipe
  ModelWeights weights;
  StateList before, after;            // state of the ends
  std::vector<StateList> layers;      // state per kind of layer, as weights.kinds
  std::vector<LayerLinears> linears;  // per kind of layer
  LinearRef head, head_input;         // head_input: projection in front of the head (opt-350m)
  bool trains_norms{}, trains_embedding{}, trains_head{}, trains_patches{};  // patches: their embedding
  bool has_tied_head{};                                                      // after the framework had its say
  LayerSplit split;
  bool trains_memory{};                    // what the memory slot holds gets a gradient
  std::int64_t parameters{}, trainable{};  // elements; parameters as published, trainable of the recipe

  /// Of the units in order: the first that runs backward; those before it are frozen, so nothing is kept for them.
  /// 0: all run backward (of a frozen embedding only its gradient is let go).
  std::int64_t first_backward{};

  std::int64_t num_layers() const { return weights.num_layers(); }
  /// Positions of a sequence that a rank has.
  std::int64_t own_length(const Recipe& recipe) const { return ceil_div(recipe.seq_len, split.context_ways); }
  /// Tokens of a micro-batch that a rank has.
  std::int64_t own_tokens(const Recipe& recipe) const { return recipe.rows() * own_length(recipe); }
  /// Those of them that it has between the layers.
  std::int64_t stream_tokens(const Recipe& recipe) const {
    return split.splits_sequence ? ceil_div(own_tokens(recipe), split.ways) : own_tokens(recipe);
  }
  /// Positions of the tower and image tokens that one row of the recipe has.
  std::int64_t positions_per_row(const Recipe& recipe) const { return recipe.images.per_row * image.positions(); }
  std::int64_t features_per_row(const Recipe& recipe) const { return recipe.images.per_row * image.features; }
  std::int64_t image_tokens_per_row(const Recipe& recipe) const { return recipe.images.per_row * image.tokens; }
  /// Of one row, what waits in the memory slot: features of a deepstack, or those that layers attend to.
  std::int64_t memory_elements_per_row(const Recipe& recipe) const {
    const std::int64_t waiting = spec.vision.is_attended
                                     ? features_per_row(recipe)
                                     : std::int64_t(spec.vision.deepstack_layers.size()) * image_tokens_per_row(recipe);
    return waiting * spec.hidden_size;
  }
  /// Calls visit(list, times) for each list of state tensors and how often the model has it.
  template <class Visit>
  void each_state(Visit visit) const {
    visit(before, std::int64_t{1});
    for (std::size_t k = 0; k < layers.size(); ++k) visit(layers[k], weights.num_of_kind(k));
    visit(after, std::int64_t{1});
  }
};

/// Says how a linear of this slot is divided where ranks share a layer.
Cut cut_of(const WeightTensor& tensor);

/// The model as the recipe trains it; else what names nothing in it: a target or an entry of modules_to_save, with the
/// nearest names.
std::variant<TrainedModel, InputError> try_prepare(const ModelSpec& model, const Recipe& recipe,
                                                   const FrameworkConvention& framework);
/// The same. Throws what names nothing.
TrainedModel prepare(const ModelSpec& model, const Recipe& recipe, const FrameworkConvention& framework);

/// Stored bytes of `elements` of a tensor of `kind`; quantised tensors as packed blocks and scales.
Bytes weight_bytes(const StateTensor& tensor, std::int64_t elements, const DtypePolicy& numerics,
                   const QuantSpec& quant);

}  // namespace gpuplan
