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
  return bytes_of(recipe.rows() * model.positions_per_row(recipe) * model.spec.vision.patch_elements(), Dtype::F32);
}

/// A chunk begins with the tokens (inputs for the first stage, labels for the last) and the activations of the stage
/// before.
void StageBuilder::enter(const ScheduleStep& v) {
  if (!v.begins_chunk || v.phase == Phase::Backward) return;
  const std::uint16_t unit = unit_id(v.unit);
  tokens_ = 0;
  if (begins_model() || ends_model()) {
    tokens_ = add(Category::Activations, BufferRole::Batch, unit,
                  Bytes{recipe().tokens() * in_.framework.state.batch_bytes_per_token} +
                      (begins_model() ? pixel_bytes(in_.model, recipe()) : Bytes{}));
    emit(OpCode::LoadBatch, StreamId::Compute, Axis::None, unit, {tokens_ | kWrite});
  }
  if (begins_model()) return;
  const Bytes bytes = s_.units[v.unit].input;
  give_place(false);
  s_.x[v.unit] = add(Category::Activations, BufferRole::Boundary, unit, bytes);
  receive(unit, s_.x[v.unit], bytes, Direction::Forward);
}

/// Ranks that share a layer each send a part of what they all have, and gather the parts that they receive.
bool StageBuilder::sends_parts() const {
  return pipeline().sends_parts && in_.strategy.mesh.ways(Axis::Tp) > 1 && !in_.strategy.mesh.splits_sequence();
}

void StageBuilder::receive(std::uint16_t unit, std::uint32_t buffer, Bytes whole, Direction direction) {
  const bool is_part = sends_parts();
  const Bytes received = is_part ? shard(whole, in_.strategy.mesh.ways(Axis::Tp)) : whole;
  emit(OpCode::Recv, StreamId::Recv, Axis::Pp, unit, {buffer | kWrite}, received).direction = direction;
  if (is_part) emit(OpCode::AllGather, StreamId::Recv, Axis::Tp, unit, {buffer | kRead | kWrite | kOwnSlice}, whole);
}

void StageBuilder::send(std::uint16_t unit, std::uint32_t buffer, Bytes whole, Direction direction) {
  drain(StreamId::Send, unit);
  const Bytes sent = sends_parts() ? shard(whole, in_.strategy.mesh.ways(Axis::Tp)) : whole;
  emit(OpCode::Send, StreamId::Send, Axis::Pp, unit, {buffer | kRead}, sent).direction = direction;
  hold_to_end(direction == Direction::Forward ? pipeline().holds_outputs : pipeline().holds_input_gradients, buffer);
  hold(StreamId::Send, buffer);
}

/// The gradient of a stage's input goes to the stage before, unless all that stands before it is frozen.
void StageBuilder::leave_backward(const ScheduleStep& v) {
  const std::uint16_t unit = unit_id(v.unit);
  if (unit <= in_.model.first_backward) {
    emit(OpCode::Release, StreamId::Compute, Axis::None, unit, {s_.dx[v.unit]});
    return;
  }
  send(unit, s_.dx[v.unit], s_.units[v.unit].input, Direction::Backward);
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

/// Operands of a part of a phase: of the slots those that it uses, and what is no slot where it computes.
void StageBuilder::push_part(const Block& part) {
  s_.part_operands.clear();
  for (const Operand o : s_.operands) {
    const LocalId used = slot(o);
    const bool is_own = used == kNoLocal ? part.exchange == Exchange::None : (part.slots >> used & 1) != 0;
    if (is_own) s_.part_operands.push_back(o);
  }
}

/// Runs a phase with s_.operands: one call, or calls with what ranks exchange between them, which compute waits for.
void StageBuilder::call(BlockId first, std::uint16_t unit, std::uint16_t frame) {
  const std::span<const Block> blocks = blocks_->all_blocks();
  const bool is_one = blocks[first].next == kNoBlock && blocks[first].exchange == Exchange::None;
  std::uint32_t beside = 0;  // stands for what the exchanges beside a part bring: its bytes are the part's
  for (BlockId id = first; id != kNoBlock; id = blocks[id].next) {
    const Block& part = blocks[id];
    if (!is_one) push_part(part);
    if (part.joins && beside) s_.part_operands.push_back(std::exchange(beside, 0u) | kRead);
    if (part.is_beside) {
      s_.part_operands.push_back(beside | kRead | kWrite);
    } else if (part.next != kNoBlock && blocks[part.next].is_beside) {  // what it makes is exchanged
      beside = add(Category::Activations, BufferRole::Beside, unit, Bytes{});
      s_.part_operands.push_back(beside | kWrite);
    }
    Instruction& i = emit(op_of(part.exchange), stream_of(part), part.axis, unit,
                          is_one ? s_.operands : s_.part_operands, part.message);
    i.block = id;
    i.frame = frame;
    if (i.op == OpCode::Call) i.work = std::exchange(added_, Bytes{});
    i.is_of_own_shard = part.exchange != Exchange::None && goes_with_products(part);
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
  call(is_embedding(at) ? u.whole : u.is_checkpointed ? u.blocks.forward_drop : u.blocks.forward, unit, frame_of(at));
  if (recipe().offload.activations && u.is_checkpointed && !is_embedding(at)) offload_input(at, unit);
  if (v.ends_chunk && !ends_model()) send(unit, s_.x[at + 1], output, Direction::Forward);
}

/// Autocast ends here and forgets its casts.
void StageBuilder::forget_casts(std::uint16_t unit) {
  if (s_.casts.empty()) return;
  emit(OpCode::Release, StreamId::Compute, Axis::None, unit, s_.casts);
  s_.casts.clear();
}

void StageBuilder::head(const ScheduleStep& v) {
  const Unit& u = s_.units[v.unit];
  const std::uint16_t unit = unit_id(v.unit);
  enter(v);
  const bool is_split = u.whole_backward != kNoBlock;
  const auto push_gradient = [&] {
    s_.dx[v.unit] = add(Category::Activations, BufferRole::ActivationGradient, unit, u.input);
    s_.operands.push_back(s_.dx[v.unit] | kWrite | kDx);
  };
  s_.operands.assign({s_.x[v.unit] | kRead | kX});
  if (trains() && !is_split) push_gradient();
  s_.operands.push_back(tokens_ | kRead);
  each_group(u, [&](Group& g) { push_weights(g); });
  if (trains() && !is_split) each_group(u, [&](Group& g) { push_gradients(g); });
  push_issued();
  call(u.whole, unit, frame_of(v.unit));
  if (is_split) {  // the loss stands outside of the model's forward, and passes of other models stand here
    forget_casts(unit);
    s_.operands.clear();
    if (u.keeps_input) s_.operands.push_back(s_.x[v.unit] | kRead | kX);
    push_gradient();
    s_.operands.push_back(tokens_ | kRead);
    each_group(u, [&](Group& g) { push_weights(g); });
    each_group(u, [&](Group& g) { push_gradients(g); });
    push_issued();
    call(u.whole_backward, unit, frame_of(v.unit));
  }
  forget_casts(unit);
  if (is_pipeline_ && pipeline().merges_outputs && recipe().loss == LossKernel::Plain) hold_logits(unit);
  if (v.ends_chunk && trains()) leave_backward(v);  // a stage of the head alone
}

void StageBuilder::backward(const ScheduleStep& v) {
  const Unit& u = s_.units[v.unit];
  const std::uint16_t unit = unit_id(v.unit);
  const std::size_t at = v.unit;
  if (v.begins_chunk && !ends_model()) {
    const Bytes bytes = u.output;
    give_place(true);
    s_.dx[at + 1] = add(Category::Activations, BufferRole::ActivationGradient, unit, bytes);
    receive(unit, s_.dx[at + 1], bytes, Direction::Backward);
  }
  if (is_embedding(at)) {
    if (u.whole_backward == kNoBlock) {
      emit(OpCode::Release, StreamId::Compute, Axis::None, unit, {s_.dx[at + 1]});
      return;
    }
    s_.operands.assign({s_.dx[at + 1] | kRead | kDy, tokens_ | kRead});
    each_group(u, [&](Group& g) { push_weights(g); });
    each_group(u, [&](Group& g) { push_gradients(g); });
    call(u.whole_backward, unit, 0);
    return;
  }
  std::uint32_t output = 0;
  if (u.is_checkpointed) {
    phase_ = Phase::Recompute;
    s_.operands.assign({s_.x[at] | kRead | kX});
    if (u.blocks.recomputes_output) {
      output = add(Category::Activations, BufferRole::Boundary, narrow<std::uint16_t>(unit + 1), u.output);
      s_.operands.push_back(output | kWrite | kY);
    }
    push_memory(u, false);
    each_group(u, [&](Group& g) { push_weights(g); });
    push_issued();
    call(u.blocks.recompute, unit, frame_of(at));
    phase_ = Phase::Backward;
    // CheckpointFunction.backward of torch/utils/checkpoint.py holds `outputs`
    if (output && !in_.framework.layers.checkpoints_reentrantly)
      emit(OpCode::Release, StreamId::Compute, Axis::None, unit, {std::exchange(output, 0u)});
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
  call(u.is_checkpointed ? u.blocks.backward_dropped : u.blocks.backward, unit, frame_of(at));
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

/// Handles what a step of the schedule leaves behind: gradients that are complete, buckets that are full.
void StageBuilder::leave(const ScheduleStep& v) {
  if (v.phase == Phase::Forward) return;
  const Unit& u = s_.units[v.unit];
  const bool ends = v.ends_chunk;  // the last step of this micro-batch on this stage
  make_buckets(unit_id(v.unit));
  const auto ready = [&](std::size_t group, bool is_shared) {
    const bool is_complete =
        ends || !(s_.groups[group].is_root || is_shared);  // a tied embedding gets its last part at the end
    if (is_complete) gradients_ready(group);
  };
  ready(u.group, false);
  if (u.has_second) ready(u.second, !u.has_experts);
  // the root of a stage that ends the model and does not begin it: of norm and head
  const bool is_root_done = s_.units.front().group == 0 || u.group == 0 || (u.has_second && u.second == 0);
  if (ends && s_.groups.front().is_root && !is_root_done) gradients_ready(0);
  reduce_pending(ends);
}

/// Forward through the units but a head, then a head, then backward down to what is trained.
void StageBuilder::add_chunk(std::uint16_t first, std::uint16_t last) {
  const bool has_own_head = is_head(last);
  const std::uint16_t end = has_own_head ? last : narrow<std::uint16_t>(last + 1);
  std::uint16_t stop = first;  // the last one that runs backward
  while (stop < end && unit_id(stop) < in_.model.first_backward) ++stop;
  Chunk& chunk = s_.chunks.emplace_back(Chunk{.first = first, .last = last, .forward = s_.schedule.size()});
  for (std::uint16_t i = first; i < end; ++i) s_.schedule.push_back({Phase::Forward, i, i == first, i + 1 == end});
  chunk.backward = s_.schedule.size();
  if (has_own_head) s_.schedule.push_back({Phase::Head, last, end == first, stop == end});
  for (std::uint16_t i = end; i-- > stop;) s_.schedule.push_back({Phase::Backward, i, i + 1 == end, i == stop});
  chunk.end = s_.schedule.size();
}

void StageBuilder::begin_pass(std::int64_t micro_batch) {
  micro_batch_ = narrow<std::uint32_t>(micro_batch);
  for (Group& g : s_.groups) {
    if (keeps_gathered()) break;
    g.is_held = 0;
    g.gathered_trained = g.gathered_frozen = g.gathered_rest = g.flat_trained = g.flat_frozen = 0;
  }
  memory_ = memory_gradient_ = 0;
  hooks_ = 0;
}

void StageBuilder::run_steps(std::size_t begin, std::size_t end) {
  const std::size_t ahead = gathers() || engine_.gathers_at_use ? std::size_t(engine_.prefetch_units) : 0;
  begin_walk(WalkOver::Schedule, end);
  for (std::size_t i = begin; i < end; ++i) {
    const ScheduleStep& v = s_.schedule[i];
    phase_ = v.phase;
    run_hooks(v);
    acquire(v);
    each_group(s_.units[v.unit], [&](Group& g) { copy_out(g); });
    for (std::size_t j = i + 1; j < end && j <= i + ahead; ++j) acquire(s_.schedule[j]);
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
}

void StageBuilder::end_pass() {
  for (std::uint32_t& bucket : buckets_) hold(StreamId::Reduce, std::exchange(bucket, 0));
  for (const StreamId stream : {StreamId::Reduce, StreamId::Send, StreamId::Gather, StreamId::CopyOut})
    drain(stream, first_);
  if (!s_.kept.empty()) emit(OpCode::Release, StreamId::Compute, Axis::None, first_, s_.kept);
  s_.kept.clear();
}

void StageBuilder::micro_batch(std::int64_t index) {
  begin_pass(index);
  run_steps(0, s_.schedule.size());
  end_pass();
}

/// The layers that wait for the way back are named by micro-batch.
void StageBuilder::visit(const Visit& v) {
  chunk_ = v.chunk;
  slot_ = v.micro_batch % num_slots_;
  begin_pass(v.micro_batch);
  const auto kept = s_.visited_x.begin() + std::ptrdiff_t(v.micro_batch * s_.units.size());
  std::uint32_t& tokens = s_.visited_tokens[v.micro_batch * s_.chunks.size() + v.chunk];
  const auto from = std::ptrdiff_t(chunk().first), to = std::ptrdiff_t(chunk().last) + 1;
  if (v.is_backward) {
    std::copy(kept + from, kept + to, s_.x.begin() + from);
    tokens_ = tokens;
    run_steps(chunk().backward, chunk().end);
  } else {
    run_steps(chunk().forward, chunk().backward);
    std::copy(s_.x.begin() + from, s_.x.begin() + to, kept + from);
    tokens = tokens_;
  }
  const auto window = std::size_t(in_.framework.distributed.visits_with_message);
  auto& held = s_.held[std::size_t(StreamId::Send)];
  if (window > 0) {
    s_.sent.push_back(held.empty() ? 0 : held.front());
    held.clear();
  }
  end_pass();
  if (v.is_backward && pipeline().holds_received) hold_places(v.chunk, v.micro_batch);
  if (window > 0 && s_.sent.size() > window) let_message_go(s_.sent.size() - 1 - window);
}

/// A chunk receives activations unless the model begins with it, and gradients unless it ends there.
Bytes StageBuilder::received_bytes(std::size_t at, bool is_gradient) const {
  const Chunk& c = s_.chunks[at];
  if (is_gradient) return is_head(c.last) ? Bytes{} : s_.units[c.last].output;
  return is_embedding(c.first) ? Bytes{} : s_.units[c.first].input;
}

/// Buffers that receive stand for every micro-batch, before it comes and after it was used: in their place, meanwhile,
/// a buffer as large.
void StageBuilder::hold_places(std::size_t at, std::size_t micro_batch) {
  s_.operands.clear();
  for (const bool is_gradient : {false, true}) {
    const Bytes bytes = received_bytes(at, is_gradient);
    if (bytes.count == 0) continue;
    const std::uint32_t place = add(Category::Communication, BufferRole::Boundary, unit_id(s_.chunks[at].first), bytes);
    s_.places[place_of(at, micro_batch, is_gradient)] = place;
    s_.operands.push_back(place);
    s_.held_to_end.push_back(place);
  }
  if (!s_.operands.empty()) emit(OpCode::Release, StreamId::Compute, Axis::None, first_, s_.operands);
}

void StageBuilder::give_place(bool is_gradient) {
  if (!is_pipeline_ || !pipeline().holds_received) return;
  const std::uint32_t place = std::exchange(s_.places[place_of(chunk_, micro_batch_, is_gradient)], 0u);
  std::erase(s_.held_to_end, place);
  emit(OpCode::Release, StreamId::Compute, Axis::None, first_, {place});
}

/// Keeps what the model puts out of a micro-batch after its backward.
void StageBuilder::hold_logits(std::uint16_t unit) {
  const std::int64_t elements = in_.model.own_tokens(recipe()) * in_.model.head.out;
  s_.outputs.push_back(add(Category::Logits, BufferRole::Kept, unit, bytes_of(elements, n_.compute)));
  emit(OpCode::Release, StreamId::Compute, Axis::None, unit, {s_.outputs.back()});
}

/// The step hands all of it out in one tensor.
void StageBuilder::merge_logits() {
  if (s_.outputs.empty()) return;
  Bytes all;
  s_.operands.clear();
  for (const std::uint32_t output : s_.outputs) {
    all += p_.buffers[output].bytes;
    s_.operands.push_back(output | kRead);
    s_.held_to_end.push_back(output);
  }
  s_.operands.push_back(add(Category::Logits, BufferRole::Kept, last_, all) | kWrite);
  emit(OpCode::Cast, StreamId::Compute, Axis::None, last_, s_.operands, 2 * all);
}

void StageBuilder::release_all(std::span<const std::uint32_t> ids) {
  constexpr std::size_t kAtOnce = 1024;
  for (std::size_t begin = 0; begin < ids.size(); begin += kAtOnce)
    emit(OpCode::Release, StreamId::Compute, Axis::None, first_,
         ids.subspan(begin, std::min(kAtOnce, ids.size() - begin)));
}

void StageBuilder::let_message_go(std::size_t visit) {
  if (s_.sent[visit] != 0) emit(OpCode::Release, StreamId::Compute, Axis::None, first_, {s_.sent[visit]});
}

void StageBuilder::run_visits(const PipelineRow& row, std::int64_t stage) {
  const std::int64_t m = recipe().grad_accum;
  const std::vector<Visit> visits = row.order(
      {.stages = in_.strategy.mesh.num_stages(), .chunks = std::ssize(s_.chunks), .micro_batches = m, .stage = stage});
  num_slots_ = narrow<std::uint32_t>(most_in_flight(visits));
  s_.visited_x.assign(std::size_t(m) * s_.units.size(), 0);
  s_.visited_tokens.assign(std::size_t(m) * s_.chunks.size(), 0);
  s_.sent.clear();
  s_.places.assign(2 * std::size_t(m) * s_.chunks.size(), 0);
  for (std::size_t i = 0; pipeline().holds_received && i < std::size_t(m) * s_.chunks.size(); ++i)
    hold_places(i % s_.chunks.size(), i / s_.chunks.size());
  for (const Visit& v : visits) visit(v);
  merge_logits();
  const std::size_t window = std::min(s_.sent.size(), std::size_t(in_.framework.distributed.visits_with_message));
  for (std::size_t left = s_.sent.size() - window; left < s_.sent.size(); ++left) let_message_go(left);
}

}  // namespace gpuplan
