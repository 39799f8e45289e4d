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
  std::stable_sort(layout.frozen.begin(), layout.frozen.end(),
                   [](const PlacedTensor& a, const PlacedTensor& b) { return size_of(a.dtype) > size_of(b.dtype); });
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

TrainedDtypes trained_dtypes(const UnitLayout& layout, const DtypePolicy& n, const Recipe& recipe,
                             const SizeRules& rules) {
  const bool is_fsdp = rules.engine == ShardingEngine::Fsdp1 || rules.engine == ShardingEngine::Fsdp2;
  const Dtype stored = layout.trained_dtype;
  const bool is_cast = recipe.is_adapter() ? is_fsdp && n.gather != stored : n.casts_weights;
  const Dtype used = !is_cast ? stored : is_fsdp ? n.gather : n.compute;
  return {stored, used, is_fsdp && rules.layout.shards_weights && rules.ways > 1 ? used : stored,
          has_host_copy(recipe) ? used : stored};
}

bool has_host_copy(const Recipe& recipe) {
  return recipe.offload.optimizer != OffloadTarget::None && recipe.offload.params == OffloadTarget::None;
}

StateSizes flat_state_sizes(const StateList& tensors, const DtypePolicy& n, const Recipe& recipe,
                            const OptimizerSpec& optimizer, const SizeRules& rules) {
  const UnitLayout layout = unit_layout(tensors, n, recipe.quant);
  StateSizes out;
  const bool shards_weights = rules.layout.shards_weights && rules.ways > 1,
             shards_step = rules.layout.shards_optimizer && rules.ways > 1;
  const std::int64_t frozen_part =
      shards_weights ? flat_part_bytes(layout.frozen_bytes, rules.ways) : layout.frozen_bytes.count;
  out.frozen = layout.scales_bytes + Bytes{frozen_part};
  if (shards_weights) out.frozen_gathered = Bytes{frozen_part * rules.ways};
  const std::int64_t count = layout.trained_elements;
  if (count == 0) return out;

  const bool is_cut = shards_step || shards_weights;
  const std::int64_t part = is_cut ? flat_part(count, rules.ways) : count;
  const std::int64_t whole = is_cut ? part * rules.ways : count;  // every rank's part is as long: padded at the end
  const auto [weight, used, gradient, kept] = trained_dtypes(layout, n, recipe, rules);
  out.trained = bytes_of(shards_weights ? part : whole, kept);
  if (shards_weights || used != kept) out.trained_gathered = bytes_of(whole, used), out.gathered_elements = whole;
  out.full_gradient = out.reduce_message = bytes_of(whole, gradient);
  const std::int64_t stepped = shards_step ? part : whole;
  out.gradient = bytes_of(stepped, weight);
  out.trained_elements = stepped;
  if (has_host_copy(recipe)) out.master = bytes_of(stepped, weight);
  out.state = optimizer_state_bytes(optimizer, stepped, stepped, 1, weight);
  return out;
}

}  // namespace gpuplan
