// A model with the recipe's choice of what is trained: which linears carry adapters, which tensors are quantised, which
// are trained as full copies. Sizes are elements; dtypes come later (models/numerics.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "models/framework.h"
#include "models/layer_graph.h"
#include "models/model_spec.h"
#include "models/numerics.h"
#include "models/recipe.h"
#include "models/weights.h"

namespace gpuplan {

/// What one tensor of the training state is.
enum class StateKind : std::uint8_t {
  Frozen,     // frozen linear in the frozen dtype
  FrozenEnd,  // frozen norm, embedding, head, bias
  Quantised,  // frozen linear in block-quantised storage
  Trained,    // weight trained by full fine-tuning
  Adapter,    // LoRA A, B, DoRA magnitude
  SavedCopy
};  // modules_to_save: trainable copy beside a frozen original

constexpr bool is_trained(StateKind kind) { return kind >= StateKind::Trained; }

struct StateTensor {
  StateKind kind{};
  std::int64_t rows{}, cols{};  // cols 1 for vectors
  std::int64_t elements() const { return rows * cols; }
};

/// A linear of the decoder layer (or the head) as the ledger needs it. `weight` indexes ModelWeights::layer.
struct LinearRef {
  const char* name = "";
  std::uint8_t weight = 0xff;
  std::int64_t in{}, out{};
  Dim in_dim{}, out_dim{};
  bool is_trained{}, is_quantised{}, is_adapted{};
  std::int64_t rank{};  // of its adapter
  bool exists() const { return in > 0; }
};

enum class UnitKind : std::uint8_t { Before, Layer, After };  // embedding; decoder layer; final norm and head
constexpr int kNumUnitKinds = 3;

/// One model under one recipe; made once, then read by every plan.
struct TrainedModel {
  ModelSpec spec;
  ModelWeights weights;
  std::array<std::vector<StateTensor>, kNumUnitKinds> state;  // per unit kind
  LinearRef q, k, v, qkv, o, gate, up, gate_up, down, head;
  bool trains_norms{}, trains_embedding{}, trains_head{};
  bool has_tied_head{};                    // after the framework had its say
  std::int64_t parameters{}, trainable{};  // elements; parameters as published, trainable of the recipe

  const std::vector<StateTensor>& state_of(UnitKind kind) const { return state[std::size_t(kind)]; }
};

/// Throws InputError for a target or modules_to_save entry that names nothing in the model (with the nearest names).
TrainedModel prepare(const ModelSpec& model, const Recipe& recipe, const FrameworkConvention& framework);

/// Stored bytes of `elements` of a tensor of `kind`; quantised tensors as packed blocks and scales.
Bytes weight_bytes(const StateTensor& tensor, std::int64_t elements, const Numerics& numerics, const QuantSpec& quant);

}  // namespace gpuplan
