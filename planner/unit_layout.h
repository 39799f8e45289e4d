// Where the tensors of a unit lie when its state is flat (StateArrays::Flat). What is trained is one array of one
// dtype; what is frozen is one array of bytes, behind the scales of its quantised tensors. Sharding cuts the arrays
// evenly, whatever tensor a cut goes through. Sizes in the step program, loading, checkpoints and execution all come
// from here.
#pragma once

#include <cstdint>
#include <vector>

#include "models/numerics.h"
#include "models/trained_model.h"

namespace gpuplan {

/// One tensor, or a matrix of its adapter.
struct PlacedTensor {
  std::uint16_t tensor{};  // of the unit's weights
  WeightUse use = WeightUse::Tensor;
  bool is_quantised{};  // NF4 codes; `begin` is theirs
  bool is_partial{};    // ranks that share the layer have it whole, and sum their gradients of it
  Dtype dtype{};        // as stored
  std::int64_t rows{}, cols{};
  std::int64_t begin{};                  // trained: element of the flat array; frozen: byte of the flat array
  std::int64_t scales{}, scale_codes{};  // of a quantised tensor: bytes from the start of the unit's scales
  std::int64_t elements() const { return rows * cols; }
  std::int64_t num_blocks(const QuantSpec& quant) const { return ceil_div(elements(), quant.block_size); }
  bool operator==(const PlacedTensor&) const = default;
};

struct UnitLayout {
  std::vector<PlacedTensor> trained, frozen;
  std::int64_t trained_elements{};
  Dtype trained_dtype{};
  Bytes frozen_bytes, scales_bytes;  // of the flat array; of what stands before it and is never cut
  const PlacedTensor* find(std::uint16_t tensor, WeightUse use) const;  // null: not in this unit
};

/// Widest elements first, so that every tensor is aligned to its element; else in the order of the list. Requires: what
/// is trained has one dtype (the executor refuses other recipes).
UnitLayout unit_layout(const StateList& tensors, const DtypePolicy& numerics, const QuantSpec& quant);

/// A rank's part of `count` elements cut in `ways`: whole vectors of 16 bytes of any dtype, as kernels and collectives
/// are quickest on; the last ones may reach beyond the end or lie there, so that all are alike.
constexpr std::int64_t flat_part(std::int64_t count, std::int64_t ways) {
  constexpr std::int64_t kVector = 8;  // elements of 2 bytes
  return ways == 1 ? count : kVector * ceil_div(count, kVector * ways);
}
/// The number of frozen bytes.
constexpr std::int64_t flat_part_bytes(Bytes bytes, std::int64_t ways) {
  return ways == 1 ? bytes.count : 16 * ceil_div(bytes.count, 16 * ways);
}

/// The buffer of a stage's constants: the step's sums in fp64 (loss, squares of gradients) and the factor of its
/// losses' gradients (fp32, in 16 bytes so that what follows is aligned), then cosines and sines of rotary positions,
/// [seq_len, rotary dims / 2] of fp32 each. Bytes from its start.
struct ConstantsLayout {
  std::int64_t pairs{};  // of a position that turn; 0 without rotary positions
  Bytes loss_sum, square_sum, loss_scale, cosine, sine, size;
};
ConstantsLayout constants_layout(const ModelSpec& model, std::int64_t seq_len);

}  // namespace gpuplan
