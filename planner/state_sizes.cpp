#include "planner/state_sizes.h"

#include <algorithm>
#include <cmath>

#include "models/quantisation.h"
#include "planner/unit_layout.h"

namespace gpuplan {
namespace {

/// Elements of `t` on this rank when sharded.
std::int64_t shard_elements(const StateTensor& t, const SizeRules& rules) {
  if (rules.shards_rows) {  // dim 0 in ceil-sized chunks: late ranks may hold less
    const std::int64_t chunk = ceil_div(t.rows, rules.ways);
    return std::clamp<std::int64_t>(t.rows - rules.rank * chunk, 0, chunk) * t.cols * t.copies;
  }
  return ceil_div(t.elements(), rules.ways);  // flat parameter, padded to equal shards
}

struct Whole {
  Bytes packed, replicated;
};

/// Stored bytes of a whole tensor; under FSDP the quantisation scales stay outside the sharded storage.
Whole whole_bytes(const StateTensor& t, const DtypePolicy& n, const Recipe& recipe, bool shards_weights) {
  const Bytes all = weight_bytes(t, t.elements(), n, recipe.quant);
  if (t.kind != StateKind::Quantised || !shards_weights || recipe.quant.kind != BaseQuant::Nf4) return {all, {}};
  const Bytes packed{ceil_div(t.elements(), 2)};
  return {packed, all - packed};
}

}  // namespace

StateSizes& StateSizes::operator+=(const StateSizes& o) {
  trained += o.trained, frozen += o.frozen;
  trained_gathered += o.trained_gathered, frozen_gathered += o.frozen_gathered;
  full_gradient += o.full_gradient, gradient += o.gradient, reduce_message += o.reduce_message;
  master += o.master, state += o.state, paged_state += o.paged_state;
  step_gradient += o.step_gradient, step_temporary += o.step_temporary;
  step_scratch = std::max(step_scratch, o.step_scratch);
  trained_elements += o.trained_elements, gathered_elements += o.gathered_elements;
  return *this;
}

StateSizer sizer_of(StateArrays arrays) { return arrays == StateArrays::Flat ? flat_sizes : per_tensor_sizes; }

SizeRules size_rules(const Strategy& strategy, const FrameworkConvention& framework, const ModelSpec& model,
                     const Recipe& recipe) {
  const EngineConvention& engine = engine_of(framework, strategy.engine);
  SizeRules rules{.engine = strategy.engine,
                  .layout = strategy.layout,
                  .ways = strategy.mesh.dp_shard,
                  .shards_rows = engine.shards_rows,
                  .steps_host_copy = framework.host_steps_copy && recipe.offload.optimizer != OffloadTarget::None &&
                                     recipe.offload.params == OffloadTarget::None,
                  .keeps_weights_on_host = recipe.offload.params != OffloadTarget::None,
                  .sizer = sizer_of(framework.state_arrays)};
  constexpr std::int64_t kAutoWidths =
      10;  // transformers' "auto" of stage3_param_persistence_threshold: 10 x hidden size
  if (strategy.layout.shards_weights)
    rules.persistence_threshold =
        engine.persistence_threshold < 0 ? kAutoWidths * model.hidden_size : engine.persistence_threshold;
  return rules;
}

StateSizes per_tensor_sizes(const StateList& tensors, const DtypePolicy& n, const Recipe& recipe,
                            const OptimizerSpec& optimizer, const SizeRules& rules) {
  StateSizes out;
  const bool is_fsdp = gpuplan::is_fsdp(rules.engine);
  for (const StateTensor& t : tensors) {
    const std::int64_t elements = t.elements(), each = t.rows * t.cols;  // thresholds are of one tensor
    // ZeRO-3 keeps small weights replicated; their gradients and optimizer state are sharded all the same
    const bool stays_whole = each < rules.persistence_threshold;
    const std::int64_t part = rules.ways == 1 ? elements : shard_elements(t, rules);
    const bool shards_weight = rules.gathers() && !stays_whole;
    const Whole whole = whole_bytes(t, n, recipe, shards_weight);
    const double share = double(part) / double(elements);
    const Bytes stored = shards_weight ? Bytes{std::llround(double(whole.packed.count) * share)} + whole.replicated
                                       : whole.packed + whole.replicated;
    if (!is_trained(t.kind)) {
      out.frozen += stored;
      if (shards_weight) out.frozen_gathered += whole.packed, out.gathered_elements += elements;
      continue;
    }
    const Dtype weight = t.kind == StateKind::Trained ? n.weight : t.kind == StateKind::SavedCopy ? n.saved : n.adapter;
    const bool is_cast = t.kind == StateKind::Trained ? n.casts_weights : is_fsdp && n.gather != weight;
    const Dtype used = is_cast && is_fsdp ? n.gather : is_cast ? n.compute : weight;
    out.trained += stored;
    if (shards_weight || is_cast) out.trained_gathered += bytes_of(elements, used), out.gathered_elements += elements;
    const Dtype kept = n.has_fp32_gradients ? Dtype::F32 : weight;
    const Dtype gradient = is_fsdp && shards_weight ? used : kept;
    out.full_gradient += bytes_of(elements, gradient);
    out.reduce_message += bytes_of(elements, is_fsdp && n.reduce == Dtype::F32 ? Dtype::F32 : gradient);
    const std::int64_t stepped = rules.layout.shards_optimizer ? part : elements;
    out.gradient += bytes_of(stepped, kept);
    out.trained_elements += stepped;
    if (n.has_master) out.master += bytes_of(stepped, Dtype::F32);
    if (n.has_master && !n.has_fp32_gradients) out.step_gradient += bytes_of(stepped, Dtype::F32);
    const Bytes state = t.copies * optimizer_state_bytes(optimizer, ceil_div(stepped, t.copies), t.rows, t.cols,
                                                         n.has_master ? Dtype::F32 : weight);
    constexpr std::int64_t kMinPagedElements = 100'000;  // bitsandbytes pages tensors from 1e5 elements
    (optimizer.is_paged && each >= kMinPagedElements ? out.paged_state : out.state) += state;
    if (n.has_master) continue;
    if (optimizer.temporary == StepTemporary::Parameters) out.step_temporary += bytes_of(stepped, weight);
    constexpr std::int64_t kLoopTensors = 2;  // sqrt(v) and its bias-corrected copy; fp32 squares of the gradient
    if (optimizer.temporary == StepTemporary::LargestTensor)
      out.step_scratch =
          std::max(out.step_scratch,
                   kLoopTensors * bytes_of(ceil_div(stepped, t.copies), optimizer.is_factored ? Dtype::F32 : weight));
  }
  return out;
}

TrainedDtypes trained_dtypes(const UnitLayout& layout, const DtypePolicy& n, const Recipe& recipe,
                             const SizeRules& rules) {
  const bool is_fsdp = gpuplan::is_fsdp(rules.engine);
  const Dtype stored = layout.trained_dtype;
  const bool is_cast = recipe.is_adapter() ? is_fsdp && n.gather != stored : n.casts_weights;
  const Dtype used = !is_cast ? stored : is_fsdp ? n.gather : n.compute;
  return {stored, used, is_fsdp && rules.gathers() ? used : stored, rules.steps_host_copy ? used : stored};
}

StateSizes flat_sizes(const StateList& tensors, const DtypePolicy& n, const Recipe& recipe,
                      const OptimizerSpec& optimizer, const SizeRules& rules) {
  const UnitLayout layout = unit_layout(tensors, n, recipe.quant);
  StateSizes out;
  const bool shards_weights = rules.gathers(), shards_step = rules.layout.shards_optimizer && rules.ways > 1;
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
  if (rules.steps_host_copy) out.master = bytes_of(stepped, weight);
  out.state = optimizer_state_bytes(optimizer, stepped, stepped, 1, weight);
  return out;
}

StateSizes model_state(const TrainedModel& model, const DtypePolicy& numerics, const Recipe& recipe,
                       const SizeRules& rules) {
  const OptimizerSpec& optimizer = find_optimizer(recipe.optimizer);
  StateSizes total;
  model.each_state([&](const StateList& list, std::int64_t times) {
    const StateSizes unit = state_sizes(list, numerics, recipe, optimizer, rules);
    for (std::int64_t i = 0; i < times; ++i) total += unit;
  });
  return total;
}

}  // namespace gpuplan
