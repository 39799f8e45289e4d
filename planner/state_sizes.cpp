#include "planner/state_sizes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

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

/// Messages in which a unit's parameters are gathered. ZeRO-3 fetches the parameters of a module when it runs
/// (`fetch_sub_module` of deepspeed/runtime/zero/partitioned_param_coordinator.py): as a rule its weight, of a leaf
/// module everything inside. Engines that gather a unit at once need one for what is trained and one for the rest.
class GatherCount {
 public:
  explicit GatherCount(const SizeRules& rules) : rules_(rules) {}
  void add(const StateTensor& t, StateSizes& sizes) {
    const std::size_t trained = is_trained(t.kind) ? 1 : 0;
    std::int64_t& count = trained ? sizes.trained_gathers : sizes.frozen_gathers;
    if (!rules_.gathers_parameters)
      count = 1;
    else if (!(t.is_of_experts && rules_.has_leaf_experts))
      count += t.num_parameters();
    else {
      const std::int64_t firsts = std::exchange(has_leaf_[trained], true) ? 0 : 1;
      count += firsts;
      (trained ? sizes.trained_leaves : sizes.frozen_leaves) += t.num_parameters() - firsts;
    }
  }

 private:
  const SizeRules& rules_;
  std::array<bool, 2> has_leaf_{};
};

}  // namespace

StateSizes& StateSizes::operator+=(const StateSizes& o) {
  trained += o.trained, frozen += o.frozen;
  trained_gathered += o.trained_gathered, frozen_gathered += o.frozen_gathered;
  full_gradient += o.full_gradient, gradient += o.gradient, reduce_message += o.reduce_message;
  partial_gradient += o.partial_gradient;
  master += o.master, state += o.state, paged_state += o.paged_state;
  step_gradient += o.step_gradient, step_temporary += o.step_temporary;
  step_scratch = std::max(step_scratch, o.step_scratch);
  largest_fetch = std::max(largest_fetch, o.largest_fetch);
  largest_gradient = std::max(largest_gradient, o.largest_gradient);
  step_flops += o.step_flops;
  trained_elements += o.trained_elements, gathered_elements += o.gathered_elements;
  trained_gathers += o.trained_gathers, frozen_gathers += o.frozen_gathers;
  trained_leaves += o.trained_leaves, frozen_leaves += o.frozen_leaves;
  return *this;
}

StateSizer sizer_of(StateArrays arrays) { return arrays == StateArrays::Flat ? flat_sizes : per_tensor_sizes; }

SizeRules size_rules(const Strategy& strategy, const FrameworkConvention& framework, const ModelSpec& model,
                     const Recipe& recipe) {
  const EngineConvention& engine = engine_of(framework, strategy.engine);
  SizeRules rules{.engine = strategy.engine,
                  .layout = strategy.layout,
                  .ways = strategy.mesh.shard_ways(),
                  .experts = strategy.mesh.experts_domain(),
                  .shards_rows = engine.shards_rows,
                  .steps_host_copy = framework.state.host_steps_copy &&
                                     recipe.offload.optimizer != OffloadTarget::None &&
                                     recipe.offload.params == OffloadTarget::None,
                  .keeps_weights_on_host = recipe.offload.params != OffloadTarget::None,
                  .gathers_parameters = engine.gathers_parameters,
                  .newton_schulz = engine.newton_schulz,
                  .trains = recipe.pass == Pass::Train,
                  .sizer = sizer_of(framework.state.arrays)};
  if (strategy.mesh.shares_experts()) rules.expert_ways = strategy.mesh.shard_ways(rules.experts);
  constexpr std::int64_t kAutoWidths =
      10;  // transformers' "auto" of stage3_param_persistence_threshold: 10 x hidden size
  if (strategy.layout.shards_weights)
    rules.persistence_threshold =
        engine.persistence_threshold < 0 ? kAutoWidths * model.hidden_size : engine.persistence_threshold;
  rules.steps_flat = engine.is_deepspeed();
  if (strategy.layout.shards_weights) rules.sub_group_size = engine.sub_group_size;
  rules.has_leaf_experts =
      std::find(engine.leaf_experts.begin(), engine.leaf_experts.end(), model.model_type) != engine.leaf_experts.end();
  return rules;
}

StateSizes per_tensor_sizes(const StateList& tensors, const DtypePolicy& n, const Recipe& recipe,
                            const SizeRules& rules) {
  const OptimizerSpec& optimizer = *recipe.optimizer;
  StateSizes out;
  GatherCount gathers(rules);
  const bool casts_gathers = traits_of(rules.engine).compute_cast == ComputeCast::Gather;
  Bytes leaf;
  const auto fetched = [&](const StateTensor& t, Bytes whole) {
    const bool is_in_leaf = t.is_of_experts && rules.has_leaf_experts;
    if (is_in_leaf) leaf += whole;
    out.largest_fetch =
        std::max(out.largest_fetch, is_in_leaf ? leaf : Bytes{ceil_div(whole.count, t.num_parameters())});
  };
  for (const StateTensor& t : tensors) {
    const std::int64_t elements = t.elements(), each = t.elements_per_parameter();  // thresholds are of one parameter
    // ZeRO-3 keeps small weights replicated; their gradients and optimizer state are sharded all the same. Source:
    // mark_persistent_parameters of deepspeed/runtime/zero/parameter_offload.py
    const bool stays_whole = each <= rules.persistence_threshold;
    if (!stays_whole && t.kind != StateKind::AdapterBuffer) gathers.add(t, out);
    const std::int64_t part = rules.ways == 1 ? elements : shard_elements(t, rules);
    const bool is_buffer = t.kind == StateKind::AdapterBuffer;  // no engine shards buffers
    const bool shards_weight = rules.gathers() && !stays_whole && !is_buffer;
    const Whole whole = whole_bytes(t, n, recipe, shards_weight);
    const double share = double(part) / double(elements);
    const Bytes stored = shards_weight ? Bytes{std::llround(double(whole.packed.count) * share)} + whole.replicated
                                       : whole.packed + whole.replicated;
    if (!is_trained(t.kind)) {
      out.frozen += stored;
      const bool is_cast = n.casts_frozen && t.kind != StateKind::Quantised;
      if (!shards_weight) continue;
      const Bytes gathered = is_cast ? bytes_of(elements, n.gather) : whole.packed;
      out.frozen_gathered += gathered, out.gathered_elements += elements;
      fetched(t, gathered);
      continue;
    }
    const Dtype weight = t.kind == StateKind::Trained ? n.weight : t.kind == StateKind::SavedCopy ? n.saved : n.adapter;
    const bool is_cached =
        n.casts_weights && (casts_gathers || !t.rests);  // autocast keeps casts of what has a gradient
    const bool is_cast = t.kind == StateKind::Trained ? is_cached : casts_gathers && n.gather != weight;
    const Dtype used = is_cast && casts_gathers ? n.gather : is_cast ? n.compute : weight;
    out.trained += stored;
    if (shards_weight || is_cast) out.trained_gathered += bytes_of(elements, used), out.gathered_elements += elements;
    if (shards_weight) fetched(t, bytes_of(elements, used));
    if (!rules.trains) continue;
    const Dtype kept = n.has_fp32_gradients ? Dtype::F32 : weight;
    const Dtype gradient = casts_gathers && shards_weight ? used : kept;
    const std::int64_t stepped = rules.layout.shards_optimizer ? part : elements;
    if (!t.rests) {
      out.full_gradient += bytes_of(elements, gradient);
      out.largest_gradient = std::max(out.largest_gradient, bytes_of(each, gradient));
      out.reduce_message += bytes_of(elements, casts_gathers && n.reduce == Dtype::F32 ? Dtype::F32 : gradient);
      out.gradient += bytes_of(stepped, kept);
      if (t.is_partial) out.partial_gradient += bytes_of(stepped, kept);
      out.trained_elements += stepped;
    }
    if (n.has_master) out.master += bytes_of(stepped, Dtype::F32);
    if (n.has_master && !n.has_fp32_gradients) out.step_gradient += bytes_of(stepped, Dtype::F32);
    const bool is_orthogonalised = optimizer.is_matrix_momentum && t.cols > 1 && t.is_of_block;
    const std::int64_t cols = optimizer.is_matrix_momentum && !is_orthogonalised ? 1 : t.cols;
    const Bytes state =
        t.copies * optimizer_state_bytes(optimizer, ceil_div(stepped, t.copies), t.rows, cols,
                                         n.has_master ? Dtype::F32 : weight, t.is_linear ? recipe.optimizer_rank : 0);
    if (is_orthogonalised)
      out.step_flops += double(t.copies) * orthogonalisation_flops(t.rows, t.cols, rules.newton_schulz) *
                        double(stepped) / double(elements);
    constexpr std::int64_t kMinPagedElements = 100'000;  // bitsandbytes pages tensors from 1e5 elements
    (optimizer.is_paged && each >= kMinPagedElements ? out.paged_state : out.state) += state;
    if (t.rests) continue;
    // DeepSpeed's Muon adds its update, made of the gradient tensor by tensor, in place (runtime/zero/muon)
    const bool is_in_place = rules.steps_flat && is_orthogonalised;
    const bool is_fp32 = n.has_master || optimizer.is_factored;
    const bool is_one_by_one = optimizer.temporary == StepTemporary::LargestTensor && !rules.steps_flat;
    const Bytes temporary =
        (is_in_place ? 0 : num_step_temporaries(optimizer.temporary)) *
        bytes_of(is_one_by_one ? ceil_div(stepped, t.num_parameters()) : stepped, is_fp32 ? Dtype::F32 : weight);
    if (is_one_by_one)
      out.step_scratch = std::max(out.step_scratch, temporary);
    else
      out.step_temporary += temporary;
  }
  return out;
}

TrainedDtypes trained_dtypes(const UnitLayout& layout, const DtypePolicy& n, const Recipe& recipe,
                             const SizeRules& rules) {
  const bool casts_gathers = traits_of(rules.engine).compute_cast == ComputeCast::Gather;
  const Dtype stored = layout.trained_dtype;
  const bool is_cast = recipe.is_adapter() ? casts_gathers && n.gather != stored : n.casts_weights;
  const Dtype used = !is_cast ? stored : casts_gathers ? n.gather : n.compute;
  return {stored, used, casts_gathers && rules.gathers() ? used : stored, rules.steps_host_copy ? used : stored};
}

StateSizes flat_sizes(const StateList& tensors, const DtypePolicy& n, const Recipe& recipe, const SizeRules& rules) {
  const UnitLayout layout = unit_layout(tensors, n, recipe.quant);
  StateSizes out;
  out.trained_gathers = out.frozen_gathers = 1;
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
  if (!rules.trains) return out;
  out.full_gradient = out.reduce_message = bytes_of(whole, gradient);
  const std::int64_t stepped = shards_step ? part : whole;
  out.gradient = bytes_of(stepped, weight);
  std::int64_t partial = 0;
  for (const PlacedTensor& t : layout.trained) partial += t.is_partial ? t.elements() : 0;
  out.partial_gradient = bytes_of(ceil_div(partial * stepped, whole), weight);  // of a rank, about
  out.trained_elements = stepped;
  if (rules.steps_host_copy) out.master = bytes_of(stepped, weight);
  out.state = optimizer_state_bytes(*recipe.optimizer, stepped, stepped, 1, weight);
  return out;
}

UnitSizes unit_sizes(const StateList& tensors, const DtypePolicy& numerics, const Recipe& recipe,
                     const SizeRules& rules) {
  if (!rules.has_experts_apart()) return {.rest = rules.sizer(tensors, numerics, recipe, rules), .experts = {}};
  StateList rest, experts;
  for (const StateTensor& t : tensors) (t.is_routed ? experts : rest).push_back(t);
  return {.rest = rules.sizer(rest, numerics, recipe, rules),
          .experts = rules.sizer(experts, numerics, recipe, rules.of_experts())};
}

StateSizes state_sizes(const StateList& tensors, const DtypePolicy& numerics, const Recipe& recipe,
                       const SizeRules& rules) {
  UnitSizes both = unit_sizes(tensors, numerics, recipe, rules);
  return both.rest += both.experts;
}

StateSizes model_state(const TrainedModel& model, const DtypePolicy& numerics, const Recipe& recipe,
                       const SizeRules& rules) {
  StateSizes total;
  model.each_state([&](const StateList& list, std::int64_t times) {
    const StateSizes unit = state_sizes(list, numerics, recipe, rules);
    for (std::int64_t i = 0; i < times; ++i) total += unit;
  });
  return total;
}

}  // namespace gpuplan
