// The schedule of a stage: what a unit's forward, head and backward emit.
#include "base/narrow.h"
#include "planner/stage_builder.h"

#include <algorithm>
#include <utility>

namespace gpuplan {

using namespace operand;

void StageBuilder::offload_input(std::size_t at, std::uint16_t unit) {
  const Bytes bytes = p_.buffers[s_.x[at]].bytes;
  s_.host_x[at] = add(Category::Activations, BufferRole::Boundary, unit, bytes, false, MemorySpace::Host);
  drain(StreamId::CopyOut, unit);
  emit(OpCode::CopyOut, StreamId::CopyOut, Axis::None, unit, {s_.x[at] | kRead, s_.host_x[at] | kWrite}, bytes);
  hold(StreamId::CopyOut, s_.x[at]);
}

void StageBuilder::prefetch_input(std::size_t step) {
  if (step >= s_.schedule.size() || s_.schedule[step].phase != Phase::Backward) return;
  const std::size_t local = s_.schedule[step].unit;
  if (!s_.host_x[local]) return;
  drain(StreamId::CopyOut, unit_id(local));
  const Bytes bytes = p_.buffers[s_.host_x[local]].bytes;
  s_.x[local] = add(Category::Activations, BufferRole::Boundary, unit_id(local), bytes);
  emit(OpCode::CopyIn, StreamId::CopyIn, Axis::None, unit_id(local), {s_.host_x[local] | kRead, s_.x[local] | kWrite},
       bytes);
  s_.host_x[local] = 0;
}

/// Patches as the processor hands them out, in fp32.
static Bytes pixel_bytes(const TrainedModel& model, const Recipe& recipe) {
  return bytes_of(recipe.micro_batch * model.positions_per_row(recipe) * model.spec.vision.patch_elements(),
                  Dtype::F32);
}

/// A chunk begins with the tokens (inputs for the first stage, labels for the last) and the activations of the stage
/// before.
void StageBuilder::enter(const ScheduleStep& v) {
  if (!v.begins_chunk || v.phase == Phase::Backward) return;
  const std::uint16_t unit = unit_id(v.unit);
  tokens_ = 0;
  if (has_embedding() || has_head()) {
    tokens_ = add(Category::Activations, BufferRole::Batch, unit,
                  Bytes{recipe().tokens() * in_.framework.state.batch_bytes_per_token} +
                      (has_embedding() ? pixel_bytes(in_.model, recipe()) : Bytes{}));
    emit(OpCode::LoadBatch, StreamId::Compute, Axis::None, unit, {tokens_ | kWrite});
  }
  if (has_embedding()) return;
  const Bytes bytes = s_.units[v.unit].input;
  s_.x[v.unit] = add(Category::Activations, BufferRole::Boundary, unit, bytes);
  emit(OpCode::Recv, StreamId::Recv, Axis::Pp, unit, {s_.x[v.unit] | kWrite}, bytes);
}

/// The gradient of a stage's input goes to the stage before, unless all that stands before it is frozen.
void StageBuilder::leave_backward(const ScheduleStep& v) {
  const std::uint16_t unit = unit_id(v.unit);
  if (first_ <= in_.model.first_backward) {
    emit(OpCode::Release, StreamId::Compute, Axis::None, unit, {s_.dx[v.unit]});
    return;
  }
  drain(StreamId::Send, unit);
  emit(OpCode::Send, StreamId::Send, Axis::Pp, unit, {s_.dx[v.unit] | kRead}, s_.units[v.unit].input).direction =
      Direction::Backward;
  hold(StreamId::Send, s_.dx[v.unit]);
}

/// The encoder's output: the bridge writes it, decoder layers read it; their gradients collect in one buffer for the
/// bridge.
void StageBuilder::push_memory(const Unit& u, bool is_backward) {
  if (!u.makes_memory && !u.reads_memory) return;
  const bool is_deepstack =
      !in_.model.spec.vision.deepstack_layers.empty();  // added to the stream: backward does not read it
  if (is_deepstack && phase_ == Phase::Recompute) return;
  const std::uint16_t unit = unit_id(std::size_t(&u - s_.units.data()));
  const bool is_first = memory_ == 0;
  if (is_first) memory_ = add(Category::Activations, BufferRole::EncoderOutput, unit, u.memory);
  const bool has_gradient = is_backward && in_.model.trains_memory;  // else what made it is frozen
  if (has_gradient && !memory_gradient_)
    memory_gradient_ = add(Category::Activations, BufferRole::EncoderGradient, unit, u.memory);
  if (u.makes_memory)
    s_.operands.push_back(is_backward ? memory_gradient_ | kRead | kDMemory
                                      : memory_ | (is_first ? kWrite : kRead | kWrite) | kMemory);
  else {
    if (!is_deepstack || !is_backward) s_.operands.push_back(memory_ | kRead | kMemory);
    if (has_gradient) s_.operands.push_back(memory_gradient_ | kRead | kWrite | kDMemory);
  }
}

void StageBuilder::forward(const ScheduleStep& v) {
  const Unit& u = s_.units[v.unit];
  const std::uint16_t unit = unit_id(v.unit);
  const std::size_t at = v.unit;
  enter(v);
  const Bytes output = u.output;
  s_.x[at + 1] = add(Category::Activations, BufferRole::Boundary, narrow<std::uint16_t>(unit + 1), output);
  s_.operands.clear();
  if (is_embedding(at))
    s_.operands.push_back(tokens_ | kRead);
  else
    s_.operands.push_back(s_.x[at] | kRead | kX);
  s_.operands.push_back(s_.x[at + 1] | kWrite | kY);
  push_memory(u, false);
  each_group(u, [&](Group& g) { push_weights(g); });
  push_issued();
  Instruction& call = emit(OpCode::Call, StreamId::Compute, Axis::None, unit, s_.operands);
  call.block = is_embedding(at) ? u.whole : u.is_checkpointed ? u.blocks.forward_drop : u.blocks.forward;
  call.frame = frame_of(v);
  if (recipe().offload.activations && u.is_checkpointed && !is_embedding(at)) offload_input(at, unit);
  if (v.ends_chunk && !has_head()) {
    drain(StreamId::Send, unit);
    emit(OpCode::Send, StreamId::Send, Axis::Pp, unit, {s_.x[at + 1] | kRead}, output);
    hold(StreamId::Send, s_.x[at + 1]);
  }
}

void StageBuilder::head(const ScheduleStep& v) {
  const Unit& u = s_.units[v.unit];
  const std::uint16_t unit = unit_id(v.unit);
  enter(v);
  s_.dx[v.unit] = add(Category::Activations, BufferRole::ActivationGradient, unit, u.input);
  s_.operands.assign({s_.x[v.unit] | kRead | kX, s_.dx[v.unit] | kWrite | kDx, tokens_ | kRead});
  each_group(u, [&](Group& g) { push_weights(g); });
  each_group(u, [&](Group& g) { push_gradients(g); });
  push_issued();
  Instruction& call = emit(OpCode::Call, StreamId::Compute, Axis::None, unit, s_.operands);
  call.block = u.whole;
  call.frame = frame_of(v);
  if (!s_.casts.empty()) {  // autocast ends here and forgets its casts
    emit(OpCode::Release, StreamId::Compute, Axis::None, unit, s_.casts);
    s_.casts.clear();
  }
  if (v.ends_chunk) leave_backward(v);  // a stage of the head alone
}

void StageBuilder::backward(const ScheduleStep& v) {
  const Unit& u = s_.units[v.unit];
  const std::uint16_t unit = unit_id(v.unit);
  const std::size_t at = v.unit;
  if (v.begins_chunk && !has_head()) {
    const Bytes bytes = s_.units.back().output;
    s_.dx[at + 1] = add(Category::Activations, BufferRole::ActivationGradient, unit, bytes);
    emit(OpCode::Recv, StreamId::Recv, Axis::Pp, unit, {s_.dx[at + 1] | kWrite}, bytes).direction = Direction::Backward;
  }
  if (is_embedding(at)) {
    if (u.whole_backward == kNoBlock) {
      emit(OpCode::Release, StreamId::Compute, Axis::None, unit, {s_.dx[at + 1]});
      return;
    }
    s_.operands.assign({s_.dx[at + 1] | kRead | kDy, tokens_ | kRead});
    each_group(u, [&](Group& g) { push_weights(g); });
    each_group(u, [&](Group& g) { push_gradients(g); });
    emit(OpCode::Call, StreamId::Compute, Axis::None, unit, s_.operands).block = u.whole_backward;
    return;
  }
  std::uint32_t output = 0;
  if (u.is_checkpointed) {
    phase_ = Phase::Recompute;
    s_.operands.assign({s_.x[at] | kRead | kX});
    push_memory(u, false);
    each_group(u, [&](Group& g) { push_weights(g); });
    push_issued();
    Instruction& call = emit(OpCode::Call, StreamId::Compute, Axis::None, unit, s_.operands);
    call.block = u.blocks.recompute;
    call.frame = frame_of(v);
    phase_ = Phase::Backward;
    if (in_.framework.layers
            .checkpoints_reentrantly) {  // CheckpointFunction.backward of torch/utils/checkpoint.py: `outputs`
      output = add(Category::Activations, BufferRole::Kept, unit, u.output);
      emit(OpCode::Release, StreamId::Compute, Axis::None, unit, {output});
    }
  }
  const bool makes_dx = u.makes_dx || unit > in_.model.first_backward;  // else what stands before it is frozen
  if (makes_dx) s_.dx[at] = add(Category::Activations, BufferRole::ActivationGradient, unit, u.input);
  s_.operands.clear();
  if (u.keeps_input || u.is_checkpointed) s_.operands.push_back(s_.x[at] | kRead | kX);
  s_.operands.push_back(s_.dx[at + 1] | kRead | kDy);
  if (makes_dx) s_.operands.push_back(s_.dx[at] | kWrite | kDx);
  push_memory(u, true);
  each_group(u, [&](Group& g) { push_weights(g); });
  each_group(u, [&](Group& g) { push_gradients(g); });
  push_issued();
  Instruction& call = emit(OpCode::Call, StreamId::Compute, Axis::None, unit, s_.operands);
  call.block = u.is_checkpointed ? u.blocks.backward_dropped : u.blocks.backward;
  call.frame = frame_of(v);
  if (output) emit(OpCode::Release, StreamId::Compute, Axis::None, unit, {output});
  if (v.ends_chunk && makes_dx) leave_backward(v);
  if (u.is_checkpointed && keeps_frozen_inputs(s_.groups[u.group])) keep_input(at);
}

/// The input of a checkpointed layer, and the gradient of the next one's input, which this layer's backward has used.
void StageBuilder::keep_input(std::size_t at) {
  const bool is_leaf = at + 1 < s_.units.size() && !is_head(at + 1) && s_.units[at + 1].is_checkpointed;
  const Bytes bytes = s_.units[at].input + (is_leaf ? s_.units[at + 1].input : Bytes{});
  s_.kept.push_back(add(Category::Activations, BufferRole::Kept, unit_id(at), bytes));
  emit(OpCode::Release, StreamId::Compute, Axis::None, unit_id(at), {s_.kept.back()});
}

/// What a step of the schedule leaves behind: gradients that are complete, buckets that are full.
void StageBuilder::leave(const ScheduleStep& v) {
  if (v.phase == Phase::Forward) return;
  const Unit& u = s_.units[v.unit];
  const bool ends = v.ends_chunk;  // the last step of this micro-batch on this stage
  // flat reduce buffers (ZeRO's, of one rank too) exist from the first gradient on
  if (!buckets_[0] && bucket_bytes().count > 0 && in_.model.trainable > 0) {
    const bool is_double = fills_bucket() && bucket_rule().overlap_comm;
    for (std::size_t k = 0; k < (is_double ? 2u : 1u); ++k)
      buckets_[k] = add(Category::Communication, BufferRole::Bucket, unit_id(v.unit), bucket_bytes());
  }
  const auto ready = [&](std::size_t group, bool is_shared) {
    const bool is_complete =
        ends || !(s_.groups[group].is_root || is_shared);  // a tied embedding gets its last part at the end
    if (is_complete) gradients_ready(group);
  };
  ready(u.group, false);
  if (u.has_second) ready(u.second, true);
  reduce_pending(ends);
}

void StageBuilder::make_schedule() {
  s_.schedule.clear();
  const std::uint16_t count = narrow<std::uint16_t>(s_.units.size());
  const std::uint16_t bodies = has_head() ? narrow<std::uint16_t>(count - 1) : count;
  for (std::uint16_t i = 0; i < bodies; ++i) s_.schedule.push_back({Phase::Forward, i, i == 0, i + 1 == bodies});
  const std::uint16_t last = std::min<std::uint16_t>(first_backward(), bodies);
  if (has_head()) s_.schedule.push_back({Phase::Head, narrow<std::uint16_t>(count - 1), bodies == 0, last == bodies});
  for (std::uint16_t i = bodies; i-- > last;) s_.schedule.push_back({Phase::Backward, i, i + 1 == bodies, i == last});
}

void StageBuilder::micro_batch(std::int64_t index) {
  micro_batch_ = narrow<std::uint32_t>(index);
  for (Group& g : s_.groups) g.is_held = 0, g.gathered_trained = g.gathered_frozen = g.flat_trained = g.flat_frozen = 0;
  memory_ = memory_gradient_ = 0;
  hooks_ = 0;
  const std::size_t ahead = gathers() ? std::size_t(engine_.prefetch_units) : 0;
  begin_walk(WalkOver::Schedule, s_.schedule.size());
  for (std::size_t i = 0; i < s_.schedule.size(); ++i) {
    const ScheduleStep& v = s_.schedule[i];
    phase_ = v.phase;
    run_hooks(v);
    acquire(v);
    each_group(s_.units[v.unit], [&](Group& g) { copy_out(g); });
    for (std::size_t j = i + 1; j < s_.schedule.size() && j <= i + ahead; ++j) acquire(s_.schedule[j]);
    cast_for(v);
    if (recipe().offload.activations) {
      prefetch_input(i);
      prefetch_input(i + 1);
    }
    if (v.phase == Phase::Forward)
      forward(v);
    else if (v.phase == Phase::Head)
      head(v);
    else
      backward(v);
    release_groups(v);
    leave(v);
    i += fold_turns(i);
  }
  for (std::uint32_t& bucket : buckets_) hold(StreamId::Reduce, std::exchange(bucket, 0));
  for (const StreamId stream : {StreamId::Reduce, StreamId::Send, StreamId::Gather, StreamId::CopyOut})
    drain(stream, first_);
  if (!s_.kept.empty()) emit(OpCode::Release, StreamId::Compute, Axis::None, first_, s_.kept);
  s_.kept.clear();
}

}  // namespace gpuplan
