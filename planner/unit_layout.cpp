#include "planner/unit_layout.h"

#include <algorithm>

#include "models/quantisation.h"

namespace gpuplan {
namespace {

Dtype stored_dtype(const StateTensor& t, const DtypePolicy& n) {
  switch (t.kind) {
    case StateKind::Frozen: return n.frozen;
    case StateKind::FrozenEnd: return n.ends;
    case StateKind::Quantised: return Dtype::U8;
    case StateKind::Trained: return n.weight;
    case StateKind::AdapterBuffer:
    case StateKind::Adapter: return n.adapter;
    case StateKind::SavedCopy: return n.saved;
  }
  return n.frozen;
}

std::int64_t flat_bytes(const PlacedTensor& t) {
  return t.is_quantised ? ceil_div(t.elements(), 2) : bytes_of(t.elements(), t.dtype).count;
}

/// fp32 scales of all tensors, then the 8-bit codes of those that are quantised again.
void place_scales(UnitLayout& layout, const QuantSpec& quant) {
  std::int64_t at = 0;
  for (PlacedTensor& t : layout.frozen) {
    if (!t.is_quantised) continue;
    t.scales = at;
    at += 4 * (quant.double_quant ? ceil_div(t.num_blocks(quant), kScalesPerNestedBlock) : t.num_blocks(quant));
  }
  for (PlacedTensor& t : layout.frozen) {
    if (!t.is_quantised || !quant.double_quant) continue;
    t.scale_codes = at;
    at += t.num_blocks(quant);
  }
  constexpr std::int64_t kVector = 16;  // what stands behind is read by whole vectors
  layout.scales_bytes = Bytes{ceil_div(at, kVector) * kVector};
}

}  // namespace

const PlacedTensor* UnitLayout::find(std::uint16_t tensor, WeightUse use) const {
  for (const auto* list : {&trained, &frozen})
    for (const PlacedTensor& t : *list)
      if (t.tensor == tensor && t.use == use) return &t;
  return nullptr;
}

UnitLayout unit_layout(const StateList& tensors, const DtypePolicy& n, const QuantSpec& quant) {
  UnitLayout layout;
  for (const StateTensor& t : tensors) {
    PlacedTensor placed{.tensor = t.tensor,
                        .use = t.use,
                        .is_quantised = t.kind == StateKind::Quantised,
                        .is_partial = t.is_partial,
                        .dtype = stored_dtype(t, n),
                        .rows = t.rows * t.copies,
                        .cols = t.cols};
    (is_trained(t.kind) ? layout.trained : layout.frozen).push_back(placed);
  }
  layout.trained_dtype = layout.trained.empty() ? n.weight : layout.trained.front().dtype;
  for (PlacedTensor& t : layout.trained) {
    t.begin = layout.trained_elements;
    layout.trained_elements += t.elements();
  }
  std::ranges::stable_sort(
      layout.frozen, [](const PlacedTensor& a, const PlacedTensor& b) { return size_of(a.dtype) > size_of(b.dtype); });
  for (PlacedTensor& t : layout.frozen) {
    t.begin = layout.frozen_bytes.count;
    layout.frozen_bytes += Bytes{flat_bytes(t)};
  }
  place_scales(layout, quant);
  return layout;
}

ConstantsLayout constants_layout(const ModelSpec& model, std::int64_t seq_len) {
  const std::int64_t pairs = model.position == PositionKind::Rope ? model.rotary_dims() / 2 : 0;
  const Bytes sum = bytes_of(1, Dtype::F64), table = bytes_of(seq_len * pairs, Dtype::F32), tables = 4 * sum;
  return {.pairs = pairs,
          .loss_sum = {},
          .square_sum = sum,
          .loss_scale = 2 * sum,
          .cosine = tables,
          .sine = tables + table,
          .size = tables + 2 * table};
}

}  // namespace gpuplan
