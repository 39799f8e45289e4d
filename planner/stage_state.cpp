// State of a stage: which tensors form a group (unit of gathering, reducing, stepping), and its persistent buffers.
#include "base/narrow.h"
#include "planner/stage_builder.h"

#include <algorithm>
#include <utility>

#include "models/optimizers.h"

namespace gpuplan {

using namespace operand;

namespace {

std::int64_t num_adapter_matrices(const StateList& layer, bool is_of_experts) {
  std::int64_t count = 0;
  for (const StateTensor& t : layer)
    if (t.kind == StateKind::Adapter && t.is_routed == is_of_experts) count += t.copies;
  return std::max<std::int64_t>(1, count);
}

}  // namespace

MemorySpace StageBuilder::optimizer_space() const {
  return recipe().offload.optimizer == OffloadTarget::Nvme ? MemorySpace::Nvme
         : recipe().offload.optimizer == OffloadTarget::Cpu ||
                 (traits_.offloads_together && recipe().offload.params != OffloadTarget::None)
             ? MemorySpace::Host
             : MemorySpace::Device;
}

MemorySpace StageBuilder::weight_space() const {
  return recipe().offload.params == OffloadTarget::Nvme  ? MemorySpace::Nvme
         : recipe().offload.params == OffloadTarget::Cpu ? MemorySpace::Host
                                                         : MemorySpace::Device;
}

void StageBuilder::allocate_state(Group& g) {
  const StateSizes& z = g.sizes;
  const Placement weight = gathers(g) && ways(g) > 1 ? Placement::Sharded : Placement::Replicated;
  const Placement optimizer = is_scattered(g) ? Placement::Sharded : Placement::Replicated;
  const auto persistent = [&](Category c, BufferRole r, Bytes bytes, MemorySpace space, Placement held) {
    if (bytes.count == 0) return std::uint32_t{};
    const std::uint32_t id = add(c, r, g.unit, bytes, true, space);
    placement(id, g.domain.shard) = held;
    return id;
  };
  g.trained = persistent(trained_category_, BufferRole::Trained, z.trained, weight_space(), weight);
  p_.buffers[g.trained].part = StatePart::Trained;  // of id 0, which is no buffer, too
  g.frozen = persistent(Category::Weights, BufferRole::Frozen, z.frozen, weight_space(), weight);
  p_.buffers[g.frozen].part = StatePart::Frozen;
  g.master = persistent(Category::Master, BufferRole::Master, z.master, optimizer_space(), optimizer);
  g.state = persistent(Category::Optimizer, BufferRole::State, z.state, optimizer_space(), optimizer);
  if (engine_.host_gradients_in_fp32 && layout_.shards_weights && optimizer_space() != MemorySpace::Device)
    persistent(Category::Gradients, BufferRole::StepGradient, z.step_gradient, optimizer_space(), optimizer);
  g.paged = persistent(Category::Optimizer, BufferRole::State, z.paged_state, MemorySpace::Managed, optimizer);
  if (gathers_at_use(g)) placement(g.trained, g.domain.shard) = Placement::Sharded;
  if (reduces_in_place() && g.has_gradient()) {
    const Placement own = is_scattered(g) ? Placement::Sharded : Placement::Replicated;
    g.main_gradient =
        persistent(Category::Gradients, BufferRole::FullGradient, z.full_gradient, MemorySpace::Device, own);
    p_.buffers[g.main_gradient].part = StatePart::Trained;
  }
  if (copies(g) > 1 && !gathers() && ways(g) == 1 && in_.framework.distributed.ddp_copies_gradients)
    g.bucket = persistent(Category::Communication, BufferRole::Bucket, z.full_gradient, MemorySpace::Device,
                          Placement::Replicated);
}

/// FSDP's size policy, bottom up as torch's _recursive_wrap: a module is a unit when what is not yet wrapped in it
/// reaches the threshold; the rest goes to the root. Of a layer, the MLP, the attention or single linears may become
/// units.
void StageBuilder::wrap_by_size(Group& root) {
  for (Group& g : s_.groups)
    if (!g.is_root && g.unit != 0 && g.unit != num_layers() + 1)
      wrap_layer_by_size(root, g, in_.model.weights.layer(std::int64_t(g.unit) - 1));
}

void StageBuilder::wrap_layer_by_size(Group& root, Group& g, const LayerKind& kind) {
  const std::int64_t least = in_.strategy.wrap_min_params;
  const auto sum = [&](auto accept) {
    std::int64_t elements = 0;
    for (const WeightTensor& t : kind.tensors)
      if (accept(t)) elements += t.elements();
    return elements;
  };
  const auto in_mlp = [](const WeightTensor& t) { return t.name.starts_with("mlp.") || t.slot >= LinearSlot::Gate; };
  const auto in_attention = [](const WeightTensor& t) {
    return t.name.starts_with("self_attn.") || t.name.starts_with("attn.") ||
           (t.slot != LinearSlot::None && t.slot < LinearSlot::Gate);
  };
  const std::int64_t mlp = sum(in_mlp), attention = sum(in_attention), layer = kind.elements();
  std::int64_t wrapped = 0;
  const auto is_unit = [&](const WeightTensor& t) {
    return t.role == WeightRole::Linear && t.elements() / t.copies >= least;
  };
  for (const WeightTensor& t : kind.tensors)
    if (is_unit(t)) wrapped += t.elements();
  std::int64_t single_mlp = 0, single_attention = 0;
  for (const WeightTensor& t : kind.tensors)
    if (is_unit(t)) (in_mlp(t) ? single_mlp : single_attention) += t.elements();
  if (mlp - single_mlp >= least) wrapped += mlp - single_mlp;
  if (attention - single_attention >= least) wrapped += attention - single_attention;
  if (layer - wrapped >= least) wrapped = layer;
  const double rest = 1.0 - double(wrapped) / double(layer);
  if (rest <= 0) return;
  const StateSizes all = g.sizes;
  const auto move = [&](Bytes StateSizes::*field) {
    const Bytes part{std::int64_t(double((all.*field).count) * rest)};
    root.sizes.*field += part;
    g.sizes.*field -= part;
  };
  for (auto field :
       {&StateSizes::trained, &StateSizes::frozen, &StateSizes::trained_gathered, &StateSizes::frozen_gathered,
        &StateSizes::full_gradient, &StateSizes::gradient, &StateSizes::reduce_message, &StateSizes::master,
        &StateSizes::state, &StateSizes::paged_state, &StateSizes::step_gradient, &StateSizes::step_temporary})
    move(field);
  root.sizes.step_scratch = std::max(root.sizes.step_scratch, all.step_scratch);
  for (auto field : {&StateSizes::trained_elements, &StateSizes::gathered_elements}) {
    const auto part = std::int64_t(double(all.*field) * rest);
    root.sizes.*field += part;
    g.sizes.*field -= part;
  }
}

static std::int64_t num_trained(const StateList& list) {
  std::int64_t count = 0;
  for (const StateTensor& t : list) count += is_trained(t.kind) ? t.num_parameters() : 0;
  return count;
}

void size_state(SizedState& out, const Job& job) {
  const auto sizes_of = [&](const StateList& list) { return unit_sizes(list, job.numerics, job.recipe(), job.rules); };
  out.before = sizes_of(job.model.before).rest, out.after = sizes_of(job.model.after).rest;
  out.kinds.clear(), out.experts.clear();
  for (const StateList& list : job.model.layers) {
    const UnitSizes unit = sizes_of(list);
    out.kinds.push_back(unit.rest);
    if (job.rules.has_experts_apart()) out.experts.push_back(unit.experts);
  }
  out.messages = {};
  out.trained_elements = 0;
  const auto add = [&](const StateSizes& unit, SizedState::Messages& messages) {
    messages.all += unit.reduce_message;
    messages.largest = std::max(messages.largest, unit.reduce_message);
    out.trained_elements += unit.trained_elements;
  };
  add(out.before, out.messages[0]), add(out.after, out.messages[0]);
  out.trained_tensors = num_trained(job.model.before) + num_trained(job.model.after);
  for (const std::size_t kind : job.model.weights.order) {
    out.trained_tensors += num_trained(job.model.layers[kind]);
    add(out.kinds[kind], out.messages[0]);
    if (!out.experts.empty()) add(out.experts[kind], out.messages[1]);
  }
}

/// ZeRO-3 fetches what a module uses when it runs, and ahead of it until a bucket is full: a parameter at least. What
/// is fetched lives until its last use nearby, within a limit. Source: fetch_sub_module, __prefetch and
/// release_sub_module of deepspeed/runtime/zero/partitioned_param_coordinator.py @edaa7221.
void StageBuilder::limit_fetches(Group& g) const {
  if (!gathers() || !engine_.gathers_parameters || ways(g) == 1 || gathers_int8(g)) return;
  const Bytes all = g.sizes.trained_gathered + g.sizes.frozen_gathered;
  if (all.count == 0) return;
  const double bytes_of_one = double(all.count) / double(std::max<std::int64_t>(1, g.sizes.gathered_elements));
  const auto width = double(in_.model.spec.hidden_size);
  const double bucket = engine_.prefetch_bucket < 0 ? 0.9 * width * width : double(engine_.prefetch_bucket);
  const auto within = [&](double elements) {
    return std::min(all, std::max(g.sizes.largest_fetch, Bytes{std::int64_t(elements * bytes_of_one)}));
  };
  const Bytes ahead = within(bucket), live = engine_.max_live > 0 ? within(double(engine_.max_live)) : all;
  g.ahead = double(ahead.count) / double(all.count);
  g.rest = std::max(Bytes{}, live - ahead);
}

/// Experts that ranks share are gathered, reduced and stepped by themselves.
void StageBuilder::add_experts(std::size_t local) {
  Unit& u = s_.units[local];
  u.second = narrow<std::uint16_t>(s_.groups.size()), u.has_second = u.has_experts = true;
  Group& g = s_.groups.emplace_back();
  g.is_of_experts = true;
  g.keeps_after_forward = !layout_.reshards_after_forward;
  g.unit = unit_id(local);
  g.sizes = z_.experts[kind_index(local)];
  g.messages =
      wraps_adapters() ? num_adapter_matrices(in_.model.layers[kind_index(local)], true) : g.sizes.trained_gathers;
  g.frozen_messages = g.sizes.frozen_gathers;
}

void StageBuilder::make_groups() {
  const StateSizes &before = z_.before, &after_layers = z_.after;
  const bool has_root = gathers() && engine_.keeps_root_gathered;
  s_.groups.clear();
  std::uint16_t root = kNoGroup;
  if (has_root && (has_embedding() || has_head() || in_.strategy.wrap == WrapPolicy::Size)) {
    root = 0;
    Group& g = s_.groups.emplace_back();
    g.is_root = true;
    g.messages = 1;
    g.unit = has_embedding() ? 0 : last_;
    if (has_embedding()) g.sizes += before;
    if (has_head()) g.sizes += after_layers;
  }
  std::uint16_t embedding = root;
  for (std::size_t i = 0; i < s_.units.size(); ++i) {
    Unit& u = s_.units[i];
    u.has_second = false;
    const bool is_end = is_embedding(i) || is_head(i);
    if (is_end && has_root) {
      u.group = root;
      continue;
    }
    const bool is_of_vision = !is_end && kind_of(i).part != ModelPart::Language;
    if (is_of_vision && root != kNoGroup && (kind_of(i).is_bridge || !in_.model.spec.vision.is_wrapped)) {
      s_.groups[root].sizes += z_.kinds[kind_index(i)];  // no FSDP unit of its own
      u.group = root;
      continue;
    }
    u.group = narrow<std::uint16_t>(s_.groups.size());
    Group& g = s_.groups.emplace_back();
    g.unit = unit_id(i);
    g.sizes = is_embedding(i) ? before : is_head(i) ? after_layers : z_.kinds[kind_index(i)];
    g.messages = !is_end && wraps_adapters() ? num_adapter_matrices(in_.model.layers[kind_index(i)], false)
                                             : g.sizes.trained_gathers;
    g.frozen_messages = g.sizes.frozen_gathers;
    if (is_embedding(i)) embedding = u.group;
    if (is_head(i) && in_.model.has_tied_head) {
      if (has_embedding())
        u.second = embedding, u.has_second = true;
      else
        g.sizes += before;  // a pipeline's last stage holds its own copy of the tied weight
    }
    if (!is_end && kind_of(i).is_bridge && embedding != kNoGroup && embedding != root)
      u.second = embedding, u.has_second = true;  // the decoder's stream starts at the shared embedding
    if (!is_end && root != kNoGroup && in_.strategy.wrap == WrapPolicy::Size) u.second = root, u.has_second = true;
  }
  if (has_experts_apart())  // behind all others, in the order of the layers, as folding wants it
    for (std::size_t i = 0; i < s_.units.size(); ++i)
      if (!is_embedding(i) && !is_head(i) && in_.model.weights.kinds[kind_index(i)].is_moe) add_experts(i);
  if (root != kNoGroup && in_.strategy.wrap == WrapPolicy::Size) wrap_by_size(s_.groups[root]);
  std::int64_t after = 0, kept = 0;
  for (std::size_t i = s_.units.size(); i-- > 0;) {
    Group& g = s_.groups[s_.units[i].group];
    if (cut_.missing > 0 && i + 1 == cut_.at) {
      is_cut_wrong_ |= engine_.max_reuse_distance > 0 && 2 * after <= engine_.max_reuse_distance;  // some are kept
      for (std::size_t k = 0; k < cut_.period; ++k)
        after += std::int64_t(cut_.missing / cut_.period) * s_.groups[s_.units[i - k].group].sizes.gathered_elements;
    }
    g.elements_after = after;
    after += g.sizes.gathered_elements;
    const bool is_reused_soon = engine_.max_reuse_distance > 0 &&
                                2 * g.elements_after + g.sizes.gathered_elements <= engine_.max_reuse_distance &&
                                kept + g.sizes.gathered_elements <= engine_.max_live;
    g.keeps_after_forward = !layout_.reshards_after_forward || g.is_root || is_reused_soon;
    if (is_reused_soon) kept += g.sizes.gathered_elements;
  }
  Bytes scratch;
  std::size_t first_of_turn = 0;
  bool is_in_turn = false;
  const auto is_before_cut = [&](const Group& g) {
    const std::size_t local = local_of(g.unit);
    return cut_.missing > 0 && local < cut_.at && local + cut_.period >= cut_.at;
  };
  for (Group& g : s_.groups) {
    const bool is_repeated = is_before_cut(g);
    if (is_repeated && !std::exchange(is_in_turn, true)) first_of_turn = p_.buffers.size();
    if (is_repeated) g.count += std::int64_t(cut_.missing / cut_.period);
    g.domain = g.is_of_experts ? rules_.experts : rules_.domain;
    g.needs_copy_out = gathers(g) && (engine_.copies_out || gathers_int8(g));
    limit_fetches(g);
    allocate_state(g);
    const Group* const next = &g == &s_.groups.back() ? nullptr : &g + 1;
    const bool ends_turn = is_in_turn && !(next && is_before_cut(*next) && next->is_of_experts == g.is_of_experts);
    if (ends_turn)
      repeat_buffers(first_of_turn, p_.buffers.size() - first_of_turn, cut_.missing / cut_.period,
                     std::int64_t(cut_.period));
    if (ends_turn) is_in_turn = false;
    step_gradient_bytes_ += g.count * g.sizes.step_gradient;
    step_temporary_bytes_ += g.count * g.sizes.step_temporary;
    scratch = std::max(scratch, g.sizes.step_scratch);
  }
  step_temporary_bytes_ += scratch;
  if (engine_.has_offload_buffer && !layout_.shards_weights && optimizer_space() != MemorySpace::Device) {
    std::int64_t largest = 0;
    in_.model.each_state([&](const StateList& list, std::int64_t) {
      for (const StateTensor& t : list)
        if (is_trained(t.kind)) largest = std::max(largest, t.rows * t.cols);
    });
    add(Category::Communication, BufferRole::Bucket, first_, bytes_of(largest, n_.compute), true);
  }
}

}  // namespace gpuplan
