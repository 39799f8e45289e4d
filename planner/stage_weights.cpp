// Weights of a stage: gathers with prefetch, FSDP2's copy-out, casts for autocast, and when handles are let go.
#include "base/narrow.h"
#include "models/training_method.h"
#include "planner/stage_builder.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpuplan {

using namespace operand;

std::uint16_t num_messages(std::int64_t count) {
  return narrow<std::uint16_t>(std::min<std::int64_t>(count, std::numeric_limits<std::uint16_t>::max()));
}

std::uint32_t StageBuilder::leaf_kernels(const Group& g, std::int64_t parameters, double kernels) const {
  return narrow<std::uint32_t>(
      std::llround(double(parameters) * (kernels + double(ways(g)) * engine_.leaf_slice_kernels)));
}

/// One dtype of a group: (copy of `copied` bytes from the host,) (cast the shard,) all-gather. The handle is the
/// gathered buffer, or the flat one that copy_out turns into it. One rank has nothing to gather: what was copied or
/// cast is what compute reads.
void StageBuilder::gather_part(Group& g, std::uint32_t stored, Bytes copied, Bytes whole, bool is_cast,
                               std::int64_t units, std::int64_t leaves, std::uint32_t& handle, std::uint32_t& flat) {
  handle = flat = 0;
  if (whole.count == 0) return;
  drain(StreamId::Gather, g.unit);
  const bool is_alone = ways(g) == 1;
  const bool needs_cast = is_cast && p_.buffers[stored].bytes != shard(whole, ways(g));
  const auto hooks = narrow<std::uint32_t>(engine_.hook_kernels * units) +
                     (is_alone ? 0u : leaf_kernels(g, leaves, engine_.leaf_gather_kernels));
  const auto copy_of = [&](bool is_gathered, Bytes bytes) {
    const std::uint32_t id =
        add(Category::Communication, is_gathered ? BufferRole::Gathered : BufferRole::Shard, g.unit, bytes);
    p_.buffers[id].part = p_.buffers[stored].part;
    return id;
  };
  std::uint32_t source = stored;
  if (weight_space() != MemorySpace::Device) {
    source = copy_of(is_alone && !needs_cast, copied);
    Instruction& copy = emit(OpCode::CopyIn, engine_.copies_in_line ? StreamId::Compute : StreamId::CopyIn, Axis::None,
                             g.unit, {stored | kRead, source | kWrite}, copied);
    if (is_alone) copy.hook_kernels = hooks;
  }
  if (needs_cast) {
    const std::uint32_t cast = copy_of(is_alone, shard(whole, ways(g)));
    emit(OpCode::Cast, StreamId::Gather, Axis::None, g.unit, {source | kRead, cast | kWrite},
         p_.buffers[source].bytes + p_.buffers[cast].bytes);
    if (source != stored) hold(StreamId::Gather, source);
    source = cast;
  }
  std::uint32_t target = source;
  if (!is_alone) {
    target = copy_of(true, Bytes{std::int64_t(double(whole.count) * g.ahead)});
    placement(source, g.domain.shard) = Placement::Sharded;
    Instruction& gather =
        emit(OpCode::AllGather, StreamId::Gather, g.domain.shard, g.unit, {source | kRead, target | kWrite}, whole);
    gather.messages = num_messages(gathers_int8(g) ? 2 * units : units);  // the scales are a message of their own
    gather.hook_kernels = hooks;
    if (source != stored && p_.buffers[source].home != StreamId::Gather) hold(StreamId::Gather, source);
  }
  if (waits_for_prefetch()) s_.issued.push_back(target);
  (g.needs_copy_out ? flat : handle) = target;
}

/// Size of `bytes` after 8-bit quantisation. Ignores the scales (4 bytes per ~8,000 elements).
static Bytes in_int8(Bytes bytes, Dtype dtype) { return Bytes{bytes.count / bytes_of(1, dtype).count}; }

void StageBuilder::gather(Group& g) {
  const bool is_layer = g.unit != 0 && g.unit != num_layers() + 1;
  const bool is_fp8 = is_layer && engine_.gathers_fp8 && recipe().fp8_matmul;
  const bool is_cast = n_.casts_weights || (recipe().is_adapter() && n_.gather != n_.adapter);
  const Bytes as_used = g.sizes.trained_gathered;
  const bool is_int8 = gathers_int8(g);
  const Bytes whole = is_int8  ? in_int8(as_used, recipe().is_adapter() ? n_.adapter : n_.weight)
                      : is_fp8 ? Bytes{as_used.count / 2}
                               : as_used;
  const bool is_converted_there = is_fp8 && engine_.copies_fp8 && weight_space() != MemorySpace::Device;
  const Bytes copied = is_converted_there ? shard(whole, ways(g)) : p_.buffers[g.trained].bytes;
  gather_part(g, g.trained, copied, whole, (is_cast || is_fp8 || is_int8) && !is_converted_there, g.messages,
              g.sizes.trained_leaves, g.gathered_trained, g.flat_trained);
  const Bytes frozen = is_int8 ? in_int8(g.sizes.frozen_gathered, n_.frozen) : g.sizes.frozen_gathered;
  gather_part(g, g.frozen, p_.buffers[g.frozen].bytes, frozen, is_int8 || n_.casts_frozen, g.frozen_messages,
              g.sizes.frozen_leaves, g.gathered_frozen, g.flat_frozen);
  g.is_held = 1;
}

/// FSDP2 copies the flat gather buffer into the parameters and lets it go; 8-bit copies become weights again.
void StageBuilder::copy_out(Group& g) {
  const auto one = [&](std::uint32_t& flat, std::uint32_t& handle, Bytes as_used) {
    if (!flat) return;
    const Bytes bytes = gathers_int8(g) ? as_used : p_.buffers[flat].bytes;
    handle = add(Category::Communication, BufferRole::Gathered, g.unit, bytes);
    emit(OpCode::Cast, StreamId::Compute, Axis::None, g.unit, {flat | kRead, handle | kWrite},
         p_.buffers[flat].bytes + bytes);
    flat = 0;
  };
  one(g.flat_trained, g.gathered_trained, g.sizes.trained_gathered);
  one(g.flat_frozen, g.gathered_frozen, g.sizes.frozen_gathered);
}

/// 16-bit copies of fp32 weights, made where they are used.
void StageBuilder::cast_weights(Group& g, Bytes bytes) {
  if (g.is_held || bytes.count == 0) return;
  g.gathered_trained = add(Category::Weights, BufferRole::CastWeights, g.unit, bytes);
  p_.buffers[g.gathered_trained].part = StatePart::Trained;
  emit(OpCode::Cast, StreamId::Compute, Axis::None, g.unit, {g.trained | kRead, g.gathered_trained | kWrite},
       3 * bytes);
  g.is_held = 1;
}

/// DeepSpeed puts stage 3's hooks on every module, whatever the number of ranks (`setup_zero_stage3_hooks` of
/// deepspeed/runtime/zero/parameter_offload.py). One rank that keeps its weights gathers nothing and still runs them.
void StageBuilder::run_hooks(const ScheduleStep& v) {
  if (gathers() || !layout_.shards_weights) return;
  each_group(s_.units[v.unit], [&](const Group& g) {
    const std::int64_t calls = (g.trained ? g.messages : 0) + (g.frozen ? g.frozen_messages : 0);
    hooks_ += narrow<std::uint32_t>(engine_.hook_kernels * calls);
  });
}

/// Weights that other ranks stepped, before the first use of a step.
void StageBuilder::gather_stepped(Group& g) {
  if (g.is_current || !gathers_at_use(g)) return;
  emit(OpCode::AllGather, StreamId::Gather, g.domain.shard, g.unit, {g.trained | kRead | kWrite | kOwnSlice},
       g.sizes.trained);
  g.is_current = 1;
}

/// Gathers what a step of the schedule uses and nobody holds yet.
void StageBuilder::acquire(const ScheduleStep& v) {
  const Unit& u = s_.units[v.unit];
  each_group(u, [&](Group& g) { gather_stepped(g); });
  if (v.phase == Phase::Backward && is_embedding(v.unit) && u.whole_backward == kNoBlock)
    return;  // frozen: no backward, no hook
  if (gathers())
    each_group(u, [&](Group& g) {
      if (!g.is_held) gather(g);
    });
}

/// 16-bit copies for a step where fp32 weights are used by 16-bit matmuls. An embedding looks its rows up in fp32.
void StageBuilder::cast_for(const ScheduleStep& v) {
  const Unit& u = s_.units[v.unit];
  if (!casts() || is_embedding(v.unit)) return;
  if (u.has_experts) cast_weights(s_.groups[u.group], s_.groups[u.group].sizes.trained_gathered);
  Group& whole = s_.groups[u.has_second ? u.second : u.group];
  if (!is_head(v.unit) || in_.framework.state.casts_whole_units)
    return cast_weights(whole, whole.sizes.trained_gathered);
  const std::int64_t elements = has_own_head(recipe()) ? in_.model.head.in * in_.model.head.out
                                                       : in_.model.spec.vocab_size * in_.model.spec.hidden_size;
  const Bytes matrix = bytes_of(elements, n_.compute);
  cast_weights(whole, matrix);
}

/// Gathers that have been issued since the last call, where compute waits for all of them.
void StageBuilder::push_issued() {
  for (const std::uint32_t gathered : s_.issued) s_.operands.push_back(gathered | kRead);
  s_.issued.clear();
}

void StageBuilder::push_weights(Group& g) {
  const bool is_used_gathered = g.gathered_trained != 0;
  if (is_used_gathered)
    s_.operands.push_back(g.gathered_trained | kRead);
  else if (!gathers(g) && g.trained)
    s_.operands.push_back(g.trained | kRead);
  if (g.gathered_frozen)
    s_.operands.push_back(g.gathered_frozen | kRead);
  else if (!gathers(g) && g.frozen)
    s_.operands.push_back(g.frozen | kRead);
  if (g.rest.count == 0 || !(g.gathered_trained || g.gathered_frozen)) return;
  const bool is_fetched = g.gathered_rest != 0;
  if (!is_fetched) g.gathered_rest = add(Category::Communication, BufferRole::Gathered, g.unit, g.rest);
  s_.operands.push_back(g.gathered_rest | (is_fetched ? kRead : kWrite));
}

/// After a step of the schedule: forgets the handles of weights that its unit does not need again before they are
/// gathered or cast anew.
void StageBuilder::release_groups(const ScheduleStep& v) {
  const Unit& u = s_.units[v.unit];
  if (keeps_gathered() && !(is_last_micro_batch() && v.phase == Phase::Backward)) return;
  each_group(u, [&](Group& g) {
    if (g.is_root && !(v.phase == Phase::Backward && v.ends_chunk)) return;
    if (!g.is_root && v.phase == Phase::Forward && g.keeps_after_forward) return;
    if (casts() && n_.caches_casts && v.phase == Phase::Forward) {  // the autocast cache outlives the forward pass
      if ((!u.is_checkpointed && trains()) || is_embedding(v.unit)) return;
      if (g.gathered_trained) s_.casts.push_back(g.gathered_trained);
    }
    g.is_held = 0;
    g.gathered_trained = g.gathered_frozen = g.gathered_rest = 0;
  });
}

}  // namespace gpuplan
