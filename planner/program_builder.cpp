#include "planner/program_builder.h"

#include <algorithm>

#include "base/error.h"
#include "models/optimizers.h"
#include "planner/model_blocks.h"
#include "planner/state_sizes.h"

namespace gpuplan {
namespace {

using namespace operand;

enum class Act : std::uint8_t { Forward, Head, Backward };

/// One stop of the schedule. `unit` is local to the stage.
struct Visit { Act act{}; std::uint16_t unit{}; std::int64_t micro_batch{}; bool begins_chunk{}, ends_chunk{}; };

/// Tensors that are gathered, reduced and stepped together: an FSDP unit, a DDP bucket, a ZeRO module. Buffer ids, 0: none.
struct Group {
  StateSizes sizes;
  std::uint16_t unit{};                               // for names
  std::uint32_t trained{}, frozen{}, master{}, state{}, paged{};
  std::uint32_t gathered_trained{}, gathered_frozen{}, flat_trained{}, flat_frozen{};   // current handles
  std::uint32_t full_gradient{}, gradient{}, bucket{};
  std::int64_t elements_after{};                      // gathered between this group's forward and its backward
  bool is_held{}, keeps_after_forward{}, is_root{}, needs_copy_out{};
  bool has_gradient() const { return sizes.trained_elements > 0 || sizes.full_gradient.count > 0; }
};

/// What the units of a stage call.
struct Unit { LayerBlocks blocks; std::uint8_t whole = kNoBlock, whole_backward = kNoBlock; std::uint16_t group{}, second{}; bool has_second{}, is_checkpointed{}, keeps_input{}; Bytes input; };

constexpr std::uint16_t kNoGroup = 0xffff;

struct Scratch {
  std::vector<Group> groups;
  std::vector<Unit> units;
  std::vector<Visit> visits;
  std::vector<std::uint32_t> x, dx, host_x, casts, pending;
  std::array<std::vector<std::uint32_t>, kNumStreams> held;
  std::vector<Operand> operands;
};
Scratch& scratch() {
  static thread_local Scratch s;
  return s;
}

class StageBuilder {
 public:
  StageBuilder(StepProgram& all, RankProgram& program, const PlanInput& input, const Numerics& numerics, const SizeRules& rules, const EngineConvention& engine)
      : all_(all), p_(program), in_(input), n_(numerics), rules_(rules), engine_(engine), s_(scratch()), layout_(rules.layout) {}

  /// `layer_blocks` per kind of layer; `first`, `last` are the model's units of this stage.
  void run(const ModelBlocks& blocks, std::uint16_t first, std::uint16_t last);

 private:
  const Recipe& recipe() const { return in_.recipe; }
  std::uint16_t num_layers() const { return std::uint16_t(in_.model.spec.num_hidden_layers); }
  std::uint16_t unit_id(std::size_t local) const { return std::uint16_t(first_ + local); }
  bool is_embedding(std::size_t local) const { return unit_id(local) == 0; }
  bool is_head(std::size_t local) const { return unit_id(local) == num_layers() + 1; }
  bool has_embedding() const { return first_ == 0; }
  bool has_head() const { return last_ == num_layers() + 1; }
  bool gathers() const { return layout_.shards_weights && rules_.ways > 1; }
  bool casts() const { return !layout_.shards_weights && n_.casts_weights; }
  bool is_fsdp() const { return rules_.engine == Engine::Fsdp1 || rules_.engine == Engine::Fsdp2; }
  bool reduces_each_micro_batch() const { return layout_.shards_gradients && !engine_.syncs_last_only; }
  std::int64_t replicas() const { return in_.strategy.mesh.dp_replicate; }

  // buffers
  std::uint32_t add(Category category, BufferRole role, std::uint16_t unit, Bytes bytes, bool persistent = false, MemorySpace space = MemorySpace::Device);
  void place(std::uint32_t id, Axis axis, Placement placement) { p_.buffers[id].placement[std::size_t(axis)] = placement; }
  Instruction& emit(OpCode op, StreamId stream, Axis axis, std::uint16_t unit, std::span<const Operand> operands, Bytes work = {});
  Instruction& emit(OpCode op, StreamId stream, Axis axis, std::uint16_t unit, std::initializer_list<Operand> operands, Bytes work = {}) {
    return emit(op, stream, axis, unit, std::span<const Operand>(operands.begin(), operands.size()), work);
  }
  void finish();

  // state
  void make_groups();
  void allocate_state(Group& group);
  void wrap_by_size(Group& root);
  MemorySpace optimizer_space() const;
  MemorySpace weight_space() const;

  // asynchronous operations hold their inputs until the next one of their stream
  void hold(StreamId stream, std::uint32_t id) { if (id) s_.held[std::size_t(stream)].push_back(id); }
  void drain(StreamId stream, std::uint16_t unit);

  // visits
  void micro_batch(std::int64_t index);
  void walk();
  void acquire(std::size_t visit);
  void gather(Group& group);
  void gather_part(Group& group, std::uint32_t stored, Bytes whole, bool is_cast, std::uint32_t& handle, std::uint32_t& flat);
  void copy_out(Group& group);
  void cast_weights(Group& group, Bytes bytes);
  void release_groups(const Visit& visit);
  void forward(const Visit& visit);
  void head(const Visit& visit);
  void backward(const Visit& visit);
  void push_weights(Group& group);
  void push_gradients(Group& group);
  std::uint32_t gradient_target(Group& group);
  void gradients_ready(std::size_t group, bool is_last_micro_batch, bool flush);
  void reduce(Group& group, bool is_last_micro_batch);
  void step_all();
  void step(Group& group);
  void put_away(std::size_t at, std::uint16_t unit);
  void bring_back(std::size_t visit);
  template <class Use> void each_group(const Unit& unit, Use use) {
    use(s_.groups[unit.group]);
    if (unit.has_second) use(s_.groups[unit.second]);
  }
  bool is_last(const Visit& v) const { return v.micro_batch + 1 == recipe().grad_accum; }
  bool is_last_use(const Visit& v, std::size_t group) const;

  StepProgram& all_;
  RankProgram& p_;
  const PlanInput& in_;
  const Numerics& n_;
  const SizeRules& rules_;
  const EngineConvention& engine_;
  Scratch& s_;
  StateLayout layout_;
  std::uint16_t first_{}, last_{};
  std::uint32_t step_gradient_{}, step_temporary_{}, reduce_bucket_{};
  Bytes step_gradient_bytes_, step_temporary_bytes_;
  std::uint32_t tokens_{};
  Category trained_category_{};
};

std::uint32_t StageBuilder::add(Category category, BufferRole role, std::uint16_t unit, Bytes bytes, bool persistent, MemorySpace space) {
  Buffer& b = p_.buffers.emplace_back();
  b.bytes = bytes;
  b.category = category;
  b.role = role;
  b.unit = unit;
  b.space = space;
  b.is_persistent = b.is_allocated = persistent;
  return std::uint32_t(p_.buffers.size() - 1);
}

Instruction& StageBuilder::emit(OpCode op, StreamId stream, Axis axis, std::uint16_t unit, std::span<const Operand> operands, Bytes work) {
  Instruction& i = p_.instructions.emplace_back();
  i.op = op;
  i.stream = stream;
  i.axis = axis;
  i.unit = unit;
  i.first_operand = std::uint32_t(p_.operands.size());
  i.work = work;
  for (Operand o : operands) {
    if (id(o) == 0) continue;
    Buffer& b = p_.buffers[id(o)];
    if (!b.is_allocated) {
      b.is_allocated = true;
      b.home = stream;
      if (!(o & kByCallee)) o |= kAllocates;
    }
    p_.operands.push_back(o);
  }
  i.num_operands = std::uint16_t(p_.operands.size() - i.first_operand);
  return i;
}

/// Frees follow from use: the last operand that names a buffer frees it, unless a callee does.
void StageBuilder::finish() {
  std::vector<std::uint32_t>& seen = s_.pending;
  seen.assign(p_.buffers.size(), 0);
  for (std::size_t i = p_.operands.size(); i-- > 0;) {
    Operand& o = p_.operands[i];
    if (seen[id(o)]) continue;
    seen[id(o)] = 1;
    if (!p_.buffers[id(o)].is_persistent && !(o & kByCallee)) o |= kFrees;
  }
}

MemorySpace StageBuilder::optimizer_space() const {
  return recipe().offload.optimizer == OffloadTarget::Nvme ? MemorySpace::Nvme : recipe().offload.optimizer == OffloadTarget::Cpu || (is_fsdp() && recipe().offload.params != OffloadTarget::None) ? MemorySpace::Host : MemorySpace::Device;
}

MemorySpace StageBuilder::weight_space() const {
  return recipe().offload.params == OffloadTarget::Nvme ? MemorySpace::Nvme : recipe().offload.params == OffloadTarget::Cpu ? MemorySpace::Host : MemorySpace::Device;
}

void StageBuilder::allocate_state(Group& g) {
  const StateSizes& z = g.sizes;
  const Placement weight = gathers() ? Placement::Sharded : Placement::Replicated;
  const Placement optimizer = layout_.shards_optimizer && rules_.ways > 1 ? Placement::Sharded : Placement::Replicated;
  const auto persistent = [&](Category c, BufferRole r, Bytes bytes, MemorySpace space, Placement placement) {
    if (bytes.count == 0) return std::uint32_t{};
    const std::uint32_t id = add(c, r, g.unit, bytes, true, space);
    place(id, Axis::DpShard, placement);
    return id;
  };
  g.trained = persistent(trained_category_, BufferRole::Trained, z.trained, weight_space(), weight);
  g.frozen = persistent(Category::Weights, BufferRole::Frozen, z.frozen, weight_space(), weight);
  g.master = persistent(Category::Master, BufferRole::Master, z.master, optimizer_space(), optimizer);
  g.state = persistent(Category::Optimizer, BufferRole::State, z.state, optimizer_space(), optimizer);
  g.paged = persistent(Category::Optimizer, BufferRole::State, z.paged_state, MemorySpace::Managed, optimizer);
  if (replicas() > 1 && !gathers() && rules_.ways == 1 && in_.framework.ddp_copies_gradients)
    g.bucket = persistent(Category::Communication, BufferRole::Bucket, z.full_gradient, MemorySpace::Device, Placement::Replicated);
}

/// FSDP's size policy, bottom up as torch's _recursive_wrap: a module is a unit when what is not yet wrapped in it reaches
/// the threshold; the rest goes to the root. Of a layer, the MLP, the attention or single linears may become units.
void StageBuilder::wrap_by_size(Group& root) {
  const std::int64_t least = in_.strategy.wrap_min_params;
  const auto sum = [&](auto accept) {
    std::int64_t elements = 0;
    for (std::size_t i = 0; i < in_.model.weights.layer.size(); ++i)
      if (accept(in_.model.weights.layer[i])) elements += in_.model.weights.layer[i].elements();
    return elements;
  };
  const auto in_mlp = [](const WeightTensor& t) { return t.name.starts_with("mlp."); };
  const auto in_attention = [](const WeightTensor& t) { return t.name.starts_with("self_attn.") || t.name.starts_with("attn."); };
  const std::int64_t mlp = sum(in_mlp), attention = sum(in_attention), layer = in_.model.weights.layer_elements();
  std::int64_t wrapped = 0;
  for (const WeightTensor& t : in_.model.weights.layer)
    if (t.role == WeightRole::Linear && t.elements() >= least) wrapped += t.elements();
  std::int64_t single_mlp = 0, single_attention = 0;
  for (const WeightTensor& t : in_.model.weights.layer)
    if (t.role == WeightRole::Linear && t.elements() >= least) (in_mlp(t) ? single_mlp : single_attention) += t.elements();
  if (mlp - single_mlp >= least) wrapped += mlp - single_mlp;
  if (attention - single_attention >= least) wrapped += attention - single_attention;
  if (layer - wrapped >= least) wrapped = layer;
  const double rest = 1.0 - double(wrapped) / double(layer);
  if (rest <= 0) return;
  for (Group& g : s_.groups) {
    if (g.is_root || g.unit == 0 || g.unit == num_layers() + 1) continue;
    const StateSizes all = g.sizes;
    const auto move = [&](Bytes StateSizes::* field) {
      const Bytes part{std::int64_t(double((all.*field).count) * rest)};
      root.sizes.*field += part;
      g.sizes.*field -= part;
    };
    for (auto field : {&StateSizes::trained, &StateSizes::frozen, &StateSizes::trained_gathered, &StateSizes::frozen_gathered, &StateSizes::full_gradient,
                       &StateSizes::gradient, &StateSizes::reduce_message, &StateSizes::master, &StateSizes::state, &StateSizes::paged_state,
                       &StateSizes::step_gradient, &StateSizes::step_temporary})
      move(field);
    for (auto field : {&StateSizes::trained_elements, &StateSizes::gathered_elements}) {
      const auto part = std::int64_t(double(all.*field) * rest);
      root.sizes.*field += part;
      g.sizes.*field -= part;
    }
  }
}

void StageBuilder::make_groups() {
  const OptimizerSpec& optimizer = find_optimizer(recipe().optimizer);
  std::array<StateSizes, kNumUnitKinds> sizes;
  for (int k = 0; k < kNumUnitKinds; ++k) sizes[std::size_t(k)] = state_sizes(in_.model.state[std::size_t(k)], n_, recipe(), optimizer, rules_);
  const bool has_root = gathers() && engine_.keeps_root_gathered;
  s_.groups.clear();
  std::uint16_t root = kNoGroup;
  if (has_root && (has_embedding() || has_head() || in_.strategy.wrap == WrapPolicy::Size)) {
    root = 0;
    Group& g = s_.groups.emplace_back();
    g.is_root = true;
    g.unit = has_embedding() ? 0 : last_;
    if (has_embedding()) g.sizes += sizes[std::size_t(UnitKind::Before)];
    if (has_head()) g.sizes += sizes[std::size_t(UnitKind::After)];
  }
  std::uint16_t embedding = root;
  for (std::size_t i = 0; i < s_.units.size(); ++i) {
    Unit& u = s_.units[i];
    u.has_second = false;
    const bool is_end = is_embedding(i) || is_head(i);
    if (is_end && has_root) { u.group = root; continue; }
    u.group = std::uint16_t(s_.groups.size());
    Group& g = s_.groups.emplace_back();
    g.unit = unit_id(i);
    g.sizes = sizes[std::size_t(is_embedding(i) ? UnitKind::Before : is_head(i) ? UnitKind::After : UnitKind::Layer)];
    if (is_embedding(i)) embedding = u.group;
    if (is_head(i) && in_.model.has_tied_head) {
      if (has_embedding()) u.second = embedding, u.has_second = true;
      else g.sizes += sizes[std::size_t(UnitKind::Before)];     // a pipeline's last stage holds its own copy of the tied weight
    }
    if (!is_end && root != kNoGroup && in_.strategy.wrap == WrapPolicy::Size) u.second = root, u.has_second = true;
  }
  if (root != kNoGroup && in_.strategy.wrap == WrapPolicy::Size) wrap_by_size(s_.groups[root]);
  std::int64_t after = 0, kept = 0;
  for (std::size_t i = s_.units.size(); i-- > 0;) {
    Group& g = s_.groups[s_.units[i].group];
    g.elements_after = after;
    after += g.sizes.gathered_elements;
    const bool is_reused_soon = engine_.max_reuse_distance > 0 && 2 * g.elements_after + g.sizes.gathered_elements <= engine_.max_reuse_distance &&
                                kept + g.sizes.gathered_elements <= engine_.max_live;
    g.keeps_after_forward = !layout_.reshards_after_forward || g.is_root || is_reused_soon;
    if (is_reused_soon) kept += g.sizes.gathered_elements;
  }
  for (Group& g : s_.groups) {
    g.needs_copy_out = engine_.copies_out && gathers();
    allocate_state(g);
    step_gradient_bytes_ += g.sizes.step_gradient;
    step_temporary_bytes_ += g.sizes.step_temporary;
  }
}

void StageBuilder::drain(StreamId stream, std::uint16_t unit) {
  auto& held = s_.held[std::size_t(stream)];
  if (held.empty()) return;
  s_.operands.assign(held.begin(), held.end());
  emit(OpCode::Release, StreamId::Compute, Axis::None, unit, s_.operands);
  held.clear();
}

/// One dtype of a group: (copy from host,) (cast the shard,) all-gather. The handle is the gathered buffer, or the flat one
/// that copy_out turns into it.
void StageBuilder::gather_part(Group& g, std::uint32_t stored, Bytes whole, bool is_cast, std::uint32_t& handle, std::uint32_t& flat) {
  handle = flat = 0;
  if (whole.count == 0) return;
  std::uint32_t source = stored;
  if (weight_space() != MemorySpace::Device) {
    source = add(Category::Communication, BufferRole::Shard, g.unit, p_.buffers[stored].bytes);
    emit(OpCode::CopyIn, StreamId::CopyIn, Axis::None, g.unit, {stored | kRead, source | kWrite}, p_.buffers[stored].bytes);
  }
  if (is_cast && rules_.ways > 1) {
    const std::uint32_t cast = add(Category::Communication, BufferRole::Shard, g.unit, shard(whole, rules_.ways));
    emit(OpCode::Cast, StreamId::Gather, Axis::None, g.unit, {source | kRead, cast | kWrite}, p_.buffers[source].bytes + p_.buffers[cast].bytes);
    source = cast;
  }
  const std::uint32_t target = add(Category::Communication, BufferRole::Gathered, g.unit, whole);
  place(source, Axis::DpShard, Placement::Sharded);
  emit(OpCode::AllGather, StreamId::Gather, Axis::DpShard, g.unit, {source | kRead, target | kWrite}, whole);
  (g.needs_copy_out ? flat : handle) = target;
}

void StageBuilder::gather(Group& g) {
  gather_part(g, g.trained, g.sizes.trained_gathered, n_.casts_weights || (recipe().is_adapter() && n_.gather != n_.adapter), g.gathered_trained, g.flat_trained);
  gather_part(g, g.frozen, g.sizes.frozen_gathered, false, g.gathered_frozen, g.flat_frozen);
  g.is_held = true;
}

/// FSDP2 copies the flat gather buffer into the parameters and lets it go.
void StageBuilder::copy_out(Group& g) {
  const auto one = [&](std::uint32_t& flat, std::uint32_t& handle) {
    if (!flat) return;
    handle = add(Category::Communication, BufferRole::Gathered, g.unit, p_.buffers[flat].bytes);
    emit(OpCode::Cast, StreamId::Compute, Axis::None, g.unit, {flat | kRead, handle | kWrite}, 2 * p_.buffers[flat].bytes);
    flat = 0;
  };
  one(g.flat_trained, g.gathered_trained);
  one(g.flat_frozen, g.gathered_frozen);
}

/// 16-bit copies of fp32 weights, made where they are used.
void StageBuilder::cast_weights(Group& g, Bytes bytes) {
  if (g.is_held || bytes.count == 0) return;
  g.gathered_trained = add(Category::Weights, BufferRole::CastWeights, g.unit, bytes);
  emit(OpCode::Cast, StreamId::Compute, Axis::None, g.unit, {g.trained | kRead, g.gathered_trained | kWrite}, 3 * bytes);
  g.is_held = true;
}

void StageBuilder::acquire(std::size_t at) {
  const Visit& v = s_.visits[at];
  const Unit& u = s_.units[v.unit];
  if (gathers()) {
    each_group(u, [&](Group& g) { if (!g.is_held) gather(g); });
    return;
  }
}

void StageBuilder::push_weights(Group& g) {
  const bool is_used_gathered = g.gathered_trained != 0;
  if (is_used_gathered) s_.operands.push_back(g.gathered_trained | kRead);
  else if (!gathers() && g.trained) s_.operands.push_back(g.trained | kRead);
  if (g.gathered_frozen) s_.operands.push_back(g.gathered_frozen | kRead);
  else if (!gathers() && g.frozen) s_.operands.push_back(g.frozen | kRead);
}

std::uint32_t StageBuilder::gradient_target(Group& g) {
  if (!g.has_gradient()) return 0;
  if (!g.full_gradient) {
    g.full_gradient = add(Category::Gradients, BufferRole::FullGradient, g.unit, g.sizes.full_gradient);
    if (rules_.ways > 1) place(g.full_gradient, Axis::DpShard, Placement::Partial);
    if (replicas() > 1) place(g.full_gradient, Axis::DpReplicate, Placement::Partial);
  }
  return g.full_gradient;
}

void StageBuilder::push_gradients(Group& g) {
  if (const std::uint32_t target = gradient_target(g)) s_.operands.push_back(target | kRead | kWrite);
}

/// Whether no later visit of this micro-batch uses the group's weights.
bool StageBuilder::is_last_use(const Visit& v, std::size_t group) const {
  const Group& g = s_.groups[group];
  if (g.is_root) return v.act == Act::Backward && v.ends_chunk;
  return v.act != Act::Forward;
}

void StageBuilder::release_groups(const Visit& v) {
  const Unit& u = s_.units[v.unit];
  each_group(u, [&](Group& g) {
    const std::size_t index = std::size_t(&g - s_.groups.data());
    if (g.is_root ? !is_last_use(v, index) : v.act == Act::Forward && g.keeps_after_forward) return;
    if (casts() && n_.caches_casts && v.act == Act::Forward) {   // the autocast cache outlives the forward pass
      if (!u.is_checkpointed || is_embedding(v.unit)) return;
      if (g.gathered_trained) s_.casts.push_back(g.gathered_trained);
    }
    g.is_held = false;
    g.gathered_trained = g.gathered_frozen = 0;
  });
}

void StageBuilder::put_away(std::size_t at, std::uint16_t unit) {
  const Bytes bytes = p_.buffers[s_.x[at]].bytes;
  s_.host_x[at] = add(Category::Activations, BufferRole::Boundary, unit, bytes, false, MemorySpace::Host);
  drain(StreamId::CopyOut, unit);
  emit(OpCode::CopyOut, StreamId::CopyOut, Axis::None, unit, {s_.x[at] | kRead, s_.host_x[at] | kWrite}, bytes);
  hold(StreamId::CopyOut, s_.x[at]);
}

void StageBuilder::bring_back(std::size_t at) {
  if (at >= s_.visits.size() || s_.visits[at].act != Act::Backward) return;
  const std::size_t local = s_.visits[at].unit;
  if (!s_.host_x[local]) return;
  drain(StreamId::CopyOut, unit_id(local));
  const Bytes bytes = p_.buffers[s_.host_x[local]].bytes;
  s_.x[local] = add(Category::Activations, BufferRole::Boundary, unit_id(local), bytes);
  emit(OpCode::CopyIn, StreamId::CopyIn, Axis::None, unit_id(local), {s_.host_x[local] | kRead, s_.x[local] | kWrite}, bytes);
  s_.host_x[local] = 0;
}

void StageBuilder::forward(const Visit& v) {
  const Unit& u = s_.units[v.unit];
  const std::uint16_t unit = unit_id(v.unit);
  const std::size_t at = v.unit;
  if (v.begins_chunk) {
    tokens_ = add(Category::Activations, BufferRole::Batch, unit, Bytes{recipe().tokens() * 24});   // ids, labels, mask: int64
    emit(OpCode::LoadBatch, StreamId::Compute, Axis::None, unit, {tokens_ | kWrite});
    if (!has_embedding()) {
      s_.x[at] = add(Category::Activations, BufferRole::Boundary, unit, u.input);
      emit(OpCode::Recv, StreamId::Recv, Axis::Pp, unit, {s_.x[at] | kWrite}, u.input);
    }
  }
  const Bytes output = s_.units[std::min(at + 1, s_.units.size() - 1)].input;
  s_.x[at + 1] = add(Category::Activations, BufferRole::Boundary, std::uint16_t(unit + 1), output);
  s_.operands.clear();
  if (is_embedding(at)) s_.operands.push_back(tokens_ | kRead);
  else s_.operands.push_back(s_.x[at] | kRead | kByCallee);
  s_.operands.push_back(s_.x[at + 1] | kWrite | kByCallee);
  each_group(u, [&](Group& g) { push_weights(g); });
  Instruction& call = emit(OpCode::Call, StreamId::Compute, Axis::None, unit, s_.operands);
  call.block = is_embedding(at) ? u.whole : u.is_checkpointed ? u.blocks.forward_drop : u.blocks.forward;
  call.frame = std::uint32_t(at);
  if (recipe().offload.activations && u.is_checkpointed && !is_embedding(at)) put_away(at, unit);
  if (v.ends_chunk && !has_head()) {
    drain(StreamId::Send, unit);
    emit(OpCode::Send, StreamId::Send, Axis::Pp, unit, {s_.x[at + 1] | kRead}, output);
    hold(StreamId::Send, s_.x[at + 1]);
    emit(OpCode::Release, StreamId::Compute, Axis::None, unit, {tokens_});
  }
}

void StageBuilder::head(const Visit& v) {
  const Unit& u = s_.units[v.unit];
  const std::uint16_t unit = unit_id(v.unit);
  s_.dx[v.unit] = add(Category::Activations, BufferRole::ActivationGradient, unit, u.input);
  s_.operands.assign({s_.x[v.unit] | kRead | kByCallee, s_.dx[v.unit] | kWrite | kByCallee, tokens_ | kRead});
  each_group(u, [&](Group& g) { push_weights(g); });
  each_group(u, [&](Group& g) { push_gradients(g); });
  Instruction& call = emit(OpCode::Call, StreamId::Compute, Axis::None, unit, s_.operands);
  call.block = u.whole;
  call.frame = std::uint32_t(v.unit);
  if (!s_.casts.empty()) {                                       // autocast ends here and forgets its casts
    emit(OpCode::Release, StreamId::Compute, Axis::None, unit, s_.casts);
    s_.casts.clear();
  }
}

void StageBuilder::backward(const Visit& v) {
  const Unit& u = s_.units[v.unit];
  const std::uint16_t unit = unit_id(v.unit);
  const std::size_t at = v.unit;
  if (v.begins_chunk && !has_head()) {
    const Bytes bytes = s_.units.back().input;
    s_.dx[at + 1] = add(Category::Activations, BufferRole::ActivationGradient, unit, bytes);
    emit(OpCode::Recv, StreamId::Recv, Axis::Pp, unit, {s_.dx[at + 1] | kWrite}, bytes).frame = 1;
  }
  if (is_embedding(at)) {
    if (u.whole_backward == kNoBlock) {
      emit(OpCode::Release, StreamId::Compute, Axis::None, unit, {s_.dx[at + 1]});
      return;
    }
    s_.operands.assign({s_.dx[at + 1] | kRead | kByCallee, tokens_ | kRead});
    each_group(u, [&](Group& g) { push_weights(g); });
    each_group(u, [&](Group& g) { push_gradients(g); });
    emit(OpCode::Call, StreamId::Compute, Axis::None, unit, s_.operands).block = u.whole_backward;
    return;
  }
  if (u.is_checkpointed) {
    s_.operands.assign({s_.x[at] | kRead | kByCallee});
    each_group(u, [&](Group& g) { push_weights(g); });
    Instruction& call = emit(OpCode::Call, StreamId::Compute, Axis::None, unit, s_.operands);
    call.block = u.blocks.recompute;
    call.frame = std::uint32_t(at);
  }
  s_.dx[at] = add(Category::Activations, BufferRole::ActivationGradient, unit, u.input);
  s_.operands.clear();
  if (u.keeps_input || u.is_checkpointed) s_.operands.push_back(s_.x[at] | kRead | kByCallee);
  s_.operands.push_back(s_.dx[at + 1] | kRead | kByCallee);
  s_.operands.push_back(s_.dx[at] | kWrite | kByCallee);
  each_group(u, [&](Group& g) { push_weights(g); });
  each_group(u, [&](Group& g) { push_gradients(g); });
  Instruction& call = emit(OpCode::Call, StreamId::Compute, Axis::None, unit, s_.operands);
  call.block = u.is_checkpointed ? u.blocks.backward_dropped : u.blocks.backward;
  call.frame = std::uint32_t(at);
  if (v.ends_chunk && !has_embedding()) {
    drain(StreamId::Send, unit);
    emit(OpCode::Send, StreamId::Send, Axis::Pp, unit, {s_.dx[at] | kRead}, u.input).frame = 1;
    hold(StreamId::Send, s_.dx[at]);
  }
}

/// Reduces one group's gradient: scatter over dp_shard where the optimizer is sharded, sum over dp_replicate.
void StageBuilder::reduce(Group& g, bool is_last) {
  const bool scatters = layout_.shards_optimizer && rules_.ways > 1;
  if (scatters) {
    drain(StreamId::Reduce, g.unit);
    std::uint32_t message = g.full_gradient;
    const bool copies = is_fsdp() && (engine_.copies_out || g.sizes.reduce_message != g.sizes.full_gradient);
    if (copies) {
      message = add(Category::Communication, BufferRole::ReduceInput, g.unit, g.sizes.reduce_message);
      p_.buffers[message].placement = p_.buffers[g.full_gradient].placement;
      emit(OpCode::Cast, StreamId::Compute, Axis::None, g.unit, {g.full_gradient | kRead, message | kWrite}, g.sizes.full_gradient + g.sizes.reduce_message);
    }
    if (!g.gradient) {
      g.gradient = add(Category::Gradients, BufferRole::Gradient, g.unit, g.sizes.gradient);
      place(g.gradient, Axis::DpShard, Placement::Sharded);
      if (replicas() > 1) place(g.gradient, Axis::DpReplicate, Placement::Partial);
    }
    emit(OpCode::ReduceScatter, StreamId::Reduce, Axis::DpShard, g.unit,
         {message | kRead, g.gradient | kRead | kWrite | kAccumulates, reduce_bucket_ ? reduce_bucket_ | kRead | kWrite : 0}, g.sizes.reduce_message);
    if (layout_.shards_gradients) {
      hold(StreamId::Reduce, message);
      g.full_gradient = 0;
    }
  } else if (!g.gradient) {
    g.gradient = g.full_gradient;
  }
  if (replicas() > 1 && is_last)
    emit(OpCode::AllReduce, StreamId::Reduce, Axis::DpReplicate, g.unit, {g.gradient | kRead | kWrite, g.bucket ? g.bucket | kRead | kWrite : 0}, p_.buffers[g.gradient].bytes);
}

void StageBuilder::gradients_ready(std::size_t index, bool is_last, bool flush) {
  Group& ready = s_.groups[index];
  if (ready.has_gradient() && (is_last || reduces_each_micro_batch()) && ready.full_gradient) s_.pending.push_back(std::uint32_t(index));
  if (s_.pending.empty()) return;
  Bytes waiting;
  for (const std::uint32_t i : s_.pending) waiting += s_.groups[i].sizes.reduce_message;
  if (!flush && layout_.shards_weights == false && waiting.count < in_.framework.ddp_bucket_bytes) return;
  for (const std::uint32_t i : s_.pending) {
    reduce(s_.groups[i], is_last);
    if (recipe().optimizer_in_backward && is_last) step(s_.groups[i]);
  }
  s_.pending.clear();
}

void StageBuilder::step(Group& g) {
  if (!g.gradient || (g.sizes.trained_elements == 0)) return;
  const Axis axis = layout_.shards_optimizer ? Axis::DpShard : Axis::None;
  const bool is_host = optimizer_space() != MemorySpace::Device && (g.state || g.master);
  const bool is_slice = layout_.shards_optimizer && !layout_.shards_weights && rules_.ways > 1;
  const Operand slice = is_slice ? kOwnSlice : 0;
  std::uint32_t gradient = g.gradient;
  if (step_gradient_bytes_.count > 0 && !is_host) {               // ZeRO: fp32 copy of the whole partition
    if (!step_gradient_) step_gradient_ = add(Category::Gradients, BufferRole::StepGradient, g.unit, step_gradient_bytes_);
    place(step_gradient_, Axis::DpShard, p_.buffers[gradient].placement[std::size_t(Axis::DpShard)]);
    emit(OpCode::Cast, StreamId::Compute, Axis::None, g.unit, {gradient | kRead, step_gradient_ | kRead | kWrite | kAccumulates}, p_.buffers[gradient].bytes + g.sizes.step_gradient);
  }
  if (step_temporary_bytes_.count > 0 && !step_temporary_ && !is_host)
    step_temporary_ = add(Category::Optimizer, BufferRole::StepTemporary, g.unit, recipe().optimizer_in_backward ? g.sizes.step_temporary : step_temporary_bytes_);
  const std::uint32_t state = g.state ? g.state : g.paged;
  const Bytes traffic = 2 * g.sizes.trained + p_.buffers[gradient].bytes + 2 * (g.sizes.state + g.sizes.paged_state) + 2 * g.sizes.master + 4 * g.sizes.step_temporary;
  if (!is_host) {
    const std::uint32_t used = step_gradient_ ? step_gradient_ : gradient;
    emit(OpCode::OptimizerStep, StreamId::Compute, axis, g.unit,
         {g.trained | kRead | kWrite | slice, used | kRead, state ? state | kRead | kWrite : 0, g.master ? g.master | kRead | kWrite : 0,
          step_temporary_ ? step_temporary_ | kWrite : 0}, traffic);
    if (recipe().optimizer_in_backward) step_temporary_ = 0;
  } else {
    const Bytes moved = p_.buffers[gradient].bytes;
    const std::uint32_t host_gradient = add(Category::Gradients, BufferRole::Gradient, g.unit, moved, false, MemorySpace::Host);
    p_.buffers[host_gradient].placement = p_.buffers[gradient].placement;
    drain(StreamId::CopyOut, g.unit);
    emit(OpCode::CopyOut, StreamId::CopyOut, Axis::None, g.unit, {gradient | kRead, host_gradient | kWrite}, moved);
    hold(StreamId::CopyOut, gradient);
    const bool weights_on_host = weight_space() != MemorySpace::Device;
    emit(OpCode::OptimizerStep, StreamId::Host, axis, g.unit,
         {host_gradient | kRead, state ? state | kRead | kWrite : 0, g.master ? g.master | kRead | kWrite : 0, weights_on_host ? g.trained | kRead | kWrite : 0}, traffic);
    if (!weights_on_host)
      emit(OpCode::CopyIn, StreamId::CopyIn, axis, g.unit, {g.master ? g.master | kRead : host_gradient | kRead, g.trained | kWrite | slice}, moved);
  }
  if (is_slice) emit(OpCode::AllGather, StreamId::Gather, Axis::DpShard, g.unit, {g.trained | kRead | kWrite | kOwnSlice}, g.sizes.trained);
  g.gradient = 0;
}

void StageBuilder::step_all() {
  drain(StreamId::Reduce, first_);
  if (!recipe().optimizer_in_backward)
    for (Group& g : s_.groups) step(g);
  drain(StreamId::CopyOut, first_);
}

void StageBuilder::walk() {
  const std::int64_t ahead = gathers() ? engine_.prefetch_units : 0;
  for (std::size_t i = 0; i < s_.visits.size(); ++i) {
    const Visit v = s_.visits[i];
    const Unit& u = s_.units[v.unit];
    acquire(i);
    each_group(u, [&](Group& g) { copy_out(g); });
    for (std::size_t j = i + 1; j < s_.visits.size() && j <= i + std::size_t(ahead); ++j) acquire(j);
    if (casts() && !is_embedding(v.unit)) {
      if (is_head(v.unit)) cast_weights(s_.groups[u.has_second ? u.second : u.group], Bytes{in_.model.spec.vocab_size * in_.model.spec.hidden_size * size_of(n_.compute)});
      else cast_weights(s_.groups[u.group], s_.groups[u.group].sizes.trained_gathered);
    }
    if (recipe().offload.activations) { bring_back(i); bring_back(i + 1); }
    if (v.act == Act::Forward) forward(v);
    else if (v.act == Act::Head) head(v);
    else backward(v);
    release_groups(v);
    if (v.act == Act::Forward) continue;
    if (v.act == Act::Head && reduce_bucket_ == 0 && rules_.engine == Engine::Zero && rules_.ways > 1 && engine_.reduce_bucket != 0 && in_.model.trainable > 0) {
      const std::int64_t h = in_.model.spec.hidden_size, bucket = engine_.reduce_bucket < 0 ? h * h : engine_.reduce_bucket;
      reduce_bucket_ = add(Category::Communication, BufferRole::Bucket, unit_id(v.unit), Bytes{engine_.num_reduce_buffers * bucket * size_of(n_.compute)});
    }
    const bool flush = v.ends_chunk && v.act == Act::Backward;
    const auto ready = [&](std::size_t group) {
      const Group& g = s_.groups[group];
      const bool is_done = g.is_root || (u.has_second && group == u.second && v.act == Act::Head) ? (v.act == Act::Backward && v.ends_chunk) : true;
      if (is_done) gradients_ready(group, is_last(v), flush);
    };
    ready(u.group);
    if (u.has_second) ready(u.second);
    if (flush) gradients_ready(u.group, is_last(v), true);
  }
  drain(StreamId::Reduce, first_);
  drain(StreamId::Send, first_);
}

void StageBuilder::micro_batch(std::int64_t index) {
  s_.visits.clear();
  const std::uint16_t count = std::uint16_t(s_.units.size());
  const std::uint16_t bodies = has_head() ? std::uint16_t(count - 1) : count;
  for (std::uint16_t i = 0; i < bodies; ++i) s_.visits.push_back({Act::Forward, i, index, i == 0, i + 1 == bodies});
  if (has_head()) s_.visits.push_back({Act::Head, std::uint16_t(count - 1), index, bodies == 0, false});
  for (std::uint16_t i = bodies; i-- > 0;) s_.visits.push_back({Act::Backward, i, index, i + 1 == bodies, i == 0});
  for (Group& g : s_.groups) g.is_held = false, g.gathered_trained = g.gathered_frozen = g.flat_trained = g.flat_frozen = 0;
  if (reduces_each_micro_batch()) for (Group& g : s_.groups) g.full_gradient = 0;
  reduce_bucket_ = 0;
  walk();
}

void StageBuilder::run(const ModelBlocks& blocks, std::uint16_t first, std::uint16_t last) {
  first_ = first, last_ = last;
  p_.clear();
  p_.first_unit = first, p_.last_unit = last;
  p_.buffers.emplace_back();                                     // id 0 stands for "no operand"
  for (auto& held : s_.held) held.clear();
  s_.pending.clear();
  s_.casts.clear();
  trained_category_ = recipe().is_adapter() ? Category::Adapters : Category::Weights;
  const std::int64_t k = std::max<std::int64_t>(1, recipe().checkpoint_every);
  const Bytes boundary = bytes_of(recipe().tokens() * in_.model.spec.hidden_size, n_.residual);
  s_.units.assign(std::size_t(last - first + 1), {});
  const ModelSpec& spec = in_.model.spec;
  const std::int64_t window_period = spec.sliding_layers > 0 ? std::max<std::int64_t>(1, spec.num_hidden_layers / std::max<std::int64_t>(1, spec.num_hidden_layers - spec.sliding_layers)) : 0;
  for (std::size_t i = 0; i < s_.units.size(); ++i) {
    Unit& u = s_.units[i];
    const std::int64_t layer = std::int64_t(unit_id(i)) - 1;
    const bool is_windowed = blocks.has_windowed && (spec.sliding_layers >= spec.num_hidden_layers || (layer + 1) % window_period != 0);
    u.blocks = is_windowed ? blocks.windowed : blocks.layer;
    u.keeps_input = blocks.keeps_input;
    u.input = boundary;
    u.is_checkpointed = recipe().checkpointing != Checkpointing::None && (recipe().checkpointing != Checkpointing::EveryK || layer % k == 0);
    if (is_embedding(i)) u.whole = blocks.embedding, u.whole_backward = blocks.embedding_backward;
    if (is_head(i)) u.whole = blocks.head;
  }
  make_groups();
  s_.x.assign(s_.units.size() + 1, 0);
  s_.dx.assign(s_.units.size() + 1, 0);
  s_.host_x.assign(s_.units.size() + 1, 0);
  p_.num_frames = std::uint32_t(s_.units.size());
  const std::int64_t m = recipe().grad_accum;
  micro_batch(0);
  if (m > 2) {
    emit(OpCode::Repeat, StreamId::Compute, Axis::None, first_, {}).frame = std::uint32_t(m - 2);
    micro_batch(1);
    emit(OpCode::EndRepeat, StreamId::Compute, Axis::None, first_, {}).frame = std::uint32_t(m - 2);
  }
  if (m > 1) micro_batch(m - 1);
  step_all();
  finish();
}

const EngineConvention& engine_of(const FrameworkConvention& framework, Engine engine) {
  static const EngineConvention kLocal{.prefetch_units = 0};
  return engine == Engine::Fsdp1 ? framework.fsdp1 : engine == Engine::Fsdp2 ? framework.fsdp2 : engine == Engine::Zero ? framework.zero : kLocal;
}

RankProgram& new_program(StepProgram& program) {
  if (program.programs.size() == program.num_programs) program.programs.emplace_back();
  return program.programs[program.num_programs++];
}

}  // namespace

std::vector<std::uint16_t> stage_bounds(const PlanInput& input, const StepProgram& blocks_of, const Numerics& numerics) {
  const std::int64_t stages = input.strategy.mesh.pp, L = input.model.spec.num_hidden_layers;
  const OptimizerSpec& optimizer = find_optimizer(input.recipe.optimizer);
  std::vector<double> load(std::size_t(L + 2));
  const auto state_bytes = [&](UnitKind kind) {
    const StateSizes z = state_sizes(input.model.state_of(kind), numerics, input.recipe, optimizer, {});
    return double((z.trained + z.frozen + z.full_gradient + z.master + z.state + z.trained_gathered).count);
  };
  // what a layer keeps between forward and backward, and what the head needs at its peak
  double kept = double(bytes_of(input.recipe.tokens() * input.model.spec.hidden_size, numerics.residual).count);
  if (input.recipe.checkpointing == Checkpointing::None)
    for (const LocalId id : saved_locals(blocks_of.graphs[0])) kept += double(blocks_of.graphs[0].locals[id].bytes().count);
  const double logits = double(blocks_of.blocks[blocks_of.num_blocks - 1].total.peak);
  load.front() = state_bytes(UnitKind::Before);
  load.back() = state_bytes(UnitKind::After) + logits + (input.model.has_tied_head && stages > 1 ? state_bytes(UnitKind::Before) : 0);
  std::fill(load.begin() + 1, load.end() - 1, state_bytes(UnitKind::Layer) + kept);
  const auto capacity = [&](std::int64_t stage) { return double(input.cluster.gpus[std::size_t(stage)].framework_memory.count); };
  // smallest level such that filling stages in order up to level x capacity places every unit; at least one unit a stage
  std::vector<std::uint16_t> bounds;
  const auto fill = [&](double level) {
    bounds.assign(1, 0);
    std::size_t next = 0;
    for (std::int64_t s = 0; s < stages; ++s) {
      double used = 0;
      const std::size_t leave = std::size_t(stages - 1 - s);
      while (next + leave < load.size() && (used == 0 || used + load[next] <= level * capacity(s))) used += load[next++];
      bounds.push_back(std::uint16_t(next));
    }
    return next == load.size();
  };
  double low = 0, high = 1;
  while (!fill(high)) high *= 2;
  for (int i = 0; i < 50; ++i) (fill((low + high) / 2) ? high : low) = (low + high) / 2;
  fill(high);
  return bounds;
}

void build_step_program(StepProgram& program, const PlanInput& input, std::span<const CostModel> columns, std::span<const std::size_t> gpu_column) {
  const Strategy& strategy = input.strategy;
  const Numerics numerics = resolve_numerics(input.recipe, input.framework, strategy.engine);
  const EngineConvention& engine = engine_of(input.framework, strategy.engine);
  SizeRules rules{.engine = strategy.engine, .layout = strategy.layout, .ways = strategy.mesh.dp_shard, .rank = 0};
  const std::int64_t h = input.model.spec.hidden_size;
  rules.persistence_threshold = strategy.layout.shards_weights ? (engine.persistence_threshold < 0 ? 10 * h : engine.persistence_threshold) : 0;
  program.mesh = strategy.mesh;
  program.num_programs = 0;
  program.classes.clear();
  const ModelBlocks blocks = make_blocks(program, input.model, input.recipe, input.framework, numerics);
  program.costs.clear();
  for (const CostModel& column : columns) add_costs(program, column);

  const std::int64_t L = input.model.spec.num_hidden_layers, replicas = strategy.mesh.data_parallel();
  std::vector<std::uint16_t> bounds{0, std::uint16_t(L + 2)};
  if (strategy.mesh.pp > 1) {
    if (strategy.mesh.pp > L + 2) throw InputError("--strategy mp", "more GPUs than layers", "use fewer GPUs");
    bounds = stage_bounds(input, program, numerics);
  }
  for (std::int64_t stage = 0; stage < strategy.mesh.pp; ++stage) {
    StageBuilder builder(program, new_program(program), input, numerics, rules, engine);
    builder.run(blocks, bounds[std::size_t(stage)], std::uint16_t(bounds[std::size_t(stage) + 1] - 1));
    const std::int64_t first = stage * replicas;
    const std::size_t column = gpu_column.empty() ? 0 : gpu_column[std::size_t(first)];
    program.classes.push_back({.first_rank = first, .num_ranks = replicas, .program = program.num_programs - 1, .costs = column});
  }
}

}  // namespace gpuplan
