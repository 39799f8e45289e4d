// What each instruction of a step program does.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "run/executor.h"
#include "run/tensor_cut.h"

namespace gpuplan {

using namespace operand;

namespace {

/// Bytes as numbers that a collective moves: of the same size, whatever they mean.
struct Payload {
  std::int64_t count{};
  Dtype dtype{};
};
Payload payload_of(Bytes bytes) {
  if (bytes.count % 4 == 0) return {bytes.count / 4, Dtype::F32};
  return {bytes.count / 2, Dtype::BF16};
}

}  // namespace

/// Counts what the loss is averaged over. The first thing of a step that ranks do together, so it shows whether they
/// are in the same one.
double Executor::count_labels(std::int64_t step, const std::vector<MicroBatch>& batches) {
  double own = 0;
  for (const MicroBatch& b : batches) own += count_of(loss_, rows_of(b));
  if (!place_.counts_tokens()) own = 0;
  double sum = 0;
  const auto all = groups_.gather(std::array{own, double(run_id_), double(step)});
  for (std::size_t r = 0; r < all.size(); ++r) {
    const auto& [count, run, number] = all[r];
    if (run != double(run_id_) || number != double(step))
      throw EnvError(fmt::format("step {}: rank {} is in step {} of {}; ranks of one run must go on together", step, r,
                                 number, run == double(run_id_) ? "this run" : "another run"));
    sum += count;
  }
  return sum;
}

void Executor::start_record() {
  if (!started_) started_ = device_.create_event();
  device_.record(*started_, control());
  for (Bound& task : tasks_)
    if (!task.began) task.began = device_.create_event(), task.ended = device_.create_event();
}

std::vector<TaskTime> Executor::times() const {
  std::vector<TaskTime> out;
  for (const Bound& task : tasks_)
    if (task.began)
      out.push_back({task.task->instruction, task.task->micro_batch, device_.elapsed(*started_, *task.began),
                     device_.elapsed(*started_, *task.ended)});
  return out;
}

void Executor::run(Bound& task, const Scalars& scalars) {
  Stream& on = stream(task.instruction->stream);
  const std::size_t settled =
      scalars.has_norm ? num_gradient_tasks_ : 0;  // the host has waited for these, which a graph may have run
  for (const std::uint32_t other : task.waits)
    if (other >= settled) device_.wait(on, *tasks_[other].done);
  if (records_) device_.record(*task.began, on);
  const Instruction& i = *task.instruction;
  if (runs_block(i) && i.op != OpCode::Call)
    exchange(task);
  else
    run_alone(task, scalars);
  if (records_) device_.record(*task.ended, on);
  if (task.done) device_.record(*task.done, on);
}

void Executor::run_alone(const Bound& task, const Scalars& scalars) {
  switch (task.instruction->op) {
    case OpCode::Call: call(task); break;
    case OpCode::AllGather: all_gather(task); break;
    case OpCode::ReduceScatter: reduce_scatter(task); break;
    case OpCode::AllReduce:
      (memory_.program().operands_of(*task.instruction)[0] & kOwnSlice) ? sum_partial(task) : all_reduce(task);
      break;
    case OpCode::Send:
    case OpCode::Recv: message(task); break;
    case OpCode::CopyIn:
    case OpCode::CopyOut: host_copy(task); break;
    case OpCode::Cast: cast(task); break;
    case OpCode::LoadBatch: load_batch(task); break;
    case OpCode::OptimizerStep: optimizer_step(task, scalars); break;
    case OpCode::GradientNorm: add_squares(task); break;
    default: throw BugError(fmt::format("the native executor has no {}", to_string(task.instruction->op)));
  }
}

/// Runs an exchange of the ranks that share a layer, between its ops: sums and maxima in place, gathers and scatters of
/// equal parts in the order of the ranks.
void Executor::exchange(const Bound& task) {
  const Instruction& i = *task.instruction;
  const Block& block = job_.program().blocks[i.block];
  const LayerGraph& graph = job_.program().graphs[block.graph];
  const auto& ops = block.runs_backward ? graph.backward : graph.forward;
  const auto run = std::ranges::find(block.events, BlockEvent::Run, &BlockEvent::kind);
  const LayerOp& op = ops[run->index];
  const Local &read = graph.locals[op.reads[0]], &written = graph.locals[op.writes[0]];
  std::byte *const from = task.locals[op.reads[0]], *const to = task.locals[op.writes[0]];
  Communicator& group = *groups_.of(i.axis, i.stream);
  Stream& on = stream(i.stream);
  switch (op.exchange) {
    case Exchange::AllReduce:
      if (op.is_maximum) return group.all_reduce_max(reinterpret_cast<float*>(to), written.elements, on);
      return group.all_reduce(from, to, written.elements, written.dtype, on);
    case Exchange::AllGather: return group.all_gather(from, to, read.elements, read.dtype, on);
    case Exchange::ReduceScatter: return group.reduce_scatter(from, to, written.elements, written.dtype, on);
    default: throw BugError("the native executor has no such exchange within a layer");
  }
}

/// Says at which element of its unit's trained array a gradient begins, which is of all of it or of a rank's part.
std::int64_t Executor::begin_of(const Piece& gradient) const {
  const ProgramBuffer& b = memory_.program().buffers[gradient.buffer];
  if (!b.is_cut(job_.rules.domain)) return 0;
  return place_.shard * (memory_.size(gradient).count / size_of(job_.dtypes_of(b.unit).stored));
}

/// Calls use(tensor, begin, end) for what a gradient has of each trained tensor, in elements of the gradient.
template <class Use>
static void each_trained(const UnitLayout& layout, std::int64_t begin, std::int64_t count, Use use) {
  for (const PlacedTensor& t : layout.trained) {
    const std::int64_t from = std::max(begin, t.begin), to = std::min(begin + count, t.begin + t.elements());
    if (from < to) use(t, from - begin, to - begin);
  }
}

/// Sums the gradients of tensors that ranks which share layers hold whole, as each has a part of the sum.
void Executor::sum_partial(const Bound& task) {
  const Instruction& i = *task.instruction;
  Communicator& group = *groups_.of(i.axis, i.stream);
  for (std::size_t k = 0; k < task.operands.size(); ++k) {
    const Piece& piece = task.task->operands[k];
    const std::uint16_t unit = memory_.program().buffers[piece.buffer].unit;
    const Dtype dtype = job_.dtypes_of(unit).stored;
    each_trained(job_.layout_of(unit), begin_of(piece), memory_.size(piece).count / size_of(dtype),
                 [&](const PlacedTensor& t, std::int64_t begin, std::int64_t end) {
                   std::byte* const at = task.operands[k] + bytes_of(begin, dtype).count;
                   if (t.is_partial) group.all_reduce(at, at, end - begin, dtype, stream(i.stream));
                 });
  }
}

/// Counts tensors that ranks which share layers hold whole on the first of these ranks alone.
void Executor::add_squares(const Bound& task) {
  const Instruction& i = *task.instruction;
  const Piece& piece = task.task->operands[0];
  const Dtype dtype = job_.dtypes_of(i.unit).stored;
  const std::int64_t count = memory_.size(piece).count / size_of(dtype);
  const auto add = [&](std::int64_t begin, std::int64_t end) {
    const std::byte* const at = task.operands[0] + bytes_of(begin, dtype).count;
    device_.run(kernels::AddSquares{constants_.square_sum, {at, dtype}, end - begin}, stream(i.stream));
  };
  if (place_.layer_part == 0) return add(0, count);
  const auto& weights = job_.weights_of(i.unit);
  each_trained(job_.layout_of(i.unit), begin_of(piece), count,
               [&](const PlacedTensor& t, std::int64_t begin, std::int64_t end) {
                 if (!cut_of(t, weights[t.tensor]).is_whole()) add(begin, end);
               });
}

/// The arrays of a unit among a call's operands.
UnitView Executor::view_of(const Bound& task, std::uint16_t unit) {
  const RankProgram& p = memory_.program();
  const UnitLayout& layout = job_.layout_of(unit);
  const TrainedDtypes dtypes = job_.dtypes_of(unit);
  UnitView view{.layout = &layout};
  for (const Piece& piece : task.task->operands) {
    if (piece.buffer == 0) continue;
    const ProgramBuffer& b = p.buffers[piece.buffer];
    if (b.part == StatePart::None || b.unit != unit) continue;
    const std::byte* const at = memory_.at(piece);
    if (b.role == BufferRole::FullGradient) {
      view.gradient = memory_.at(piece);
      view.gradient_dtype = dtypes.gradient;
      view.written = &written_[std::size_t(piece.lifetime)];
      view.written->resize(layout.trained.size());
    } else if (b.part == StatePart::Trained) {
      view.trained = at;
      view.trained_dtype = b.role == BufferRole::Trained ? dtypes.kept : dtypes.used;
    } else {
      view.frozen = b.role == BufferRole::Frozen ? at + layout.scales_bytes.count : at;
    }
  }
  if (layout.scales_bytes.count > 0) view.scales = memory_.persistent(memory_.find(unit, BufferRole::Frozen));
  view.offsets = offsets_[unit].data();
  return view;
}

/// Padding behind the tensors of a gradient that is cut evenly.
void Executor::clear_padding(const UnitView& view, Bytes size, Stream& on) {
  const Bytes used = bytes_of(view.layout->trained_elements, view.gradient_dtype);
  const bool is_fresh = std::none_of(view.written->begin(), view.written->end(), [](char w) { return w != 0; });
  if (is_fresh && size > used) device_.run(kernels::Zero{view.gradient + used.count, size - used}, on);
}

void Executor::call(const Bound& task) {
  const Instruction& i = *task.instruction;
  const StepProgram& all = job_.program();
  const Block& block = all.blocks[i.block];
  const LayerGraph& graph = all.graphs[block.graph];
  LayerCall call{.device = device_,
                 .stream = stream(i.stream),
                 .model = job_.model,
                 .recipe = job_.recipe(),
                 .graph = graph,
                 .locals = task.locals,
                 .linears = job_.linears_of(i.unit),
                 .unit = view_of(task, i.unit)};
  if (i.unit == job_.head_unit()) {
    call.head = job_.head_matrix().unit == i.unit ? call.unit : view_of(task, job_.head_matrix().unit);
    call.head_tensor = job_.head_matrix().tensor;
  }
  call.constants = constants_;
  call.vocab_size = job_.request.model.vocab_size;
  call.vocab_begin = place_.layer_part * job_.model.spec.vocab_size;
  for (std::size_t k = 0; k < task.operands.size(); ++k) {
    const std::uint32_t buffer = task.task->operands[k].buffer;
    const ProgramBuffer& b = memory_.program().buffers[buffer];
    if (b.role == BufferRole::Batch) {
      const std::int64_t tokens = job_.recipe().tokens();
      auto* const ids = reinterpret_cast<std::int32_t*>(task.operands[k]);
      call.batch = {ids, ids + tokens, reinterpret_cast<float*>(ids + 2 * tokens)};
    }
    if (b.role == BufferRole::FullGradient)
      clear_padding(b.unit == i.unit ? call.unit : call.head, memory_.size(task.task->operands[k]), call.stream);
  }
  const auto& ops = block.runs_backward ? graph.backward : graph.forward;
  for (const BlockEvent& event : block.events)
    if (event.kind == BlockEvent::Run) run_layer_op(call, ops[event.index], block.runs_backward);
  const bool has_figures = i.unit == job_.head_unit() && !block.runs_backward && block.next == kNoBlock;
  if (has_figures && job_.compares_answers()) take_figures(task, call.batch);
}

/// Copies the batches to where tasks read them: the caller's memory need not live as long as the step. The step before
/// has ended.
void Executor::stage(const std::vector<MicroBatch>& batches, double label_tokens) {
  const std::int64_t size = bytes_of(job_.recipe().tokens(), Dtype::I32).count;
  if (!batches_.data())
    batches_ =
        device_.allocate_host(Bytes{2 * size * std::ssize(batches)} + bytes_of(1, Dtype::F32), HostMemory::Pinned);
  if (job_.compares_answers() && !figures_.data())
    figures_ =
        device_.allocate_host(std::ssize(batches) * bytes_of(job_.recipe().tokens(), Dtype::F32), HostMemory::Pinned);
  std::byte* to = batches_.as<std::byte>();
  for (const MicroBatch& batch : batches)
    for (const auto* const list : {&batch.ids, &batch.labels}) {
      GPUPLAN_CHECK(std::ssize(*list) == job_.recipe().tokens(), "a micro-batch has as many tokens as the plan says");
      std::memcpy(to, list->data(), std::size_t(size));
      to += size;
    }
  const auto scale = float(1 / std::max(1.0, label_tokens));
  std::memcpy(to, &scale, sizeof scale);
}

void Executor::load_scale() {
  const Bytes size = bytes_of(1, Dtype::F32);
  device_.copy(constants_.loss_scale, batches_.as<std::byte>() + (batches_.size() - size).count, size,
               CopyKind::HostToDevice, control());
}

/// Ids and labels; the losses behind them are written by the loss.
void Executor::load_batch(const Bound& task) {
  const Bytes size = 2 * bytes_of(job_.recipe().tokens(), Dtype::I32);
  device_.copy(task.operands[0], batches_.as<std::byte>() + size.count * task.task->micro_batch, size,
               CopyKind::HostToDevice, stream(task.instruction->stream));
}

/// Between pinned memory of the host and the device: shards of weights, gradients, stepped weights (of which a rank may
/// have a part), inputs of checkpointed layers.
void Executor::host_copy(const Bound& task) {
  const Instruction& i = *task.instruction;
  const bool is_part = (memory_.program().operands_of(i)[1] & kOwnSlice) != 0;
  std::byte* const to = task.operands[1] + (is_part ? i.work.count * place_.shard : 0);
  device_.copy(to, task.operands[0], i.work, i.op == OpCode::CopyIn ? CopyKind::HostToDevice : CopyKind::DeviceToHost,
               stream(i.stream));
}

/// Trained weights in the dtype they are used in: a copy for compute, or of the shard that is gathered.
void Executor::cast(const Bound& task) {
  const TrainedDtypes dtypes = job_.dtypes_of(task.instruction->unit);
  const std::int64_t count = memory_.size(task.task->operands[0]).count / size_of(dtypes.stored);
  device_.run(kernels::Cast{{task.operands[1], dtypes.used}, {task.operands[0], dtypes.stored}, count},
              stream(task.instruction->stream));
}

void Executor::all_gather(const Bound& task) {
  const Instruction& i = *task.instruction;
  Communicator& group = *groups_.of(i.axis, i.stream);
  const bool is_in_place = (memory_.program().operands_of(i)[0] & kOwnSlice) != 0;
  Bytes part = memory_.size(task.task->operands[0]);
  const std::byte* from = task.operands[0];
  if (is_in_place) {
    part = shard(part, job_.strategy.mesh.ways(i.axis));
    from += part.count * place_.shard;
  } else if (const ProgramBuffer& b = memory_.program().buffers[task.task->operands[0].buffer];
             b.part == StatePart::Frozen) {
    const Bytes scales = job_.layout_of(b.unit).scales_bytes;  // whole on every rank, in front of the part
    from += scales.count;
    part -= scales;
  }
  const Payload m = payload_of(part);
  group.all_gather(from, task.operands[is_in_place ? 0 : 1], m.count, m.dtype, stream(i.stream));
}

/// The first sum goes straight to the gradient where the dtypes agree; a later one, or one of another dtype, is made in
/// this rank's part of the message and added.
void Executor::reduce_scatter(const Bound& task) {
  const Instruction& i = *task.instruction;
  Communicator& group = *groups_.of(i.axis, i.stream);
  const TrainedDtypes dtypes = job_.dtypes_of(i.unit);
  const bool is_first = (memory_.program().operands_of(i)[1] & kAllocates) != 0;
  const std::int64_t part = memory_.size(task.task->operands[1]).count / size_of(dtypes.stored);
  Stream& on = stream(i.stream);
  if (is_first && dtypes.gradient == dtypes.stored)
    return group.reduce_scatter(task.operands[0], task.operands[1], part, dtypes.gradient, on);
  std::byte* const own = task.operands[0] + bytes_of(part, dtypes.gradient).count * place_.shard;
  group.reduce_scatter(task.operands[0], own, part, dtypes.gradient, on);
  const Numbers to{task.operands[1], dtypes.stored};
  if (is_first)
    device_.run(kernels::Cast{to, {own, dtypes.gradient}, part}, on);
  else
    device_.run(kernels::AddScaled{to, {own, dtypes.gradient}, 1, part}, on);
}

void Executor::all_reduce(const Bound& task) {
  const Instruction& i = *task.instruction;
  const Dtype dtype = job_.dtypes_of(i.unit).stored;
  const std::int64_t count = memory_.size(task.task->operands[0]).count / size_of(dtype);
  groups_.of(i.axis, i.stream)->all_reduce(task.operands[0], task.operands[0], count, dtype, stream(i.stream));
}

/// Activations go to the next stage, their gradients to the one before; behind the last one is the first, with its next
/// layers.
void Executor::message(const Bound& task) {
  const Instruction& i = *task.instruction;
  Communicator& group = *groups_.of(i.axis, i.stream);
  const bool is_send = i.op == OpCode::Send, is_gradient = i.direction == Direction::Backward;
  const int peer = (group.rank() + (is_send != is_gradient ? 1 : group.size() - 1)) % group.size();
  const Payload m = payload_of(memory_.size(task.task->operands[0]));
  if (is_send)
    group.send(task.operands[0], m.count, m.dtype, peer, stream(i.stream));
  else
    group.receive(task.operands[0], m.count, m.dtype, peer, stream(i.stream));
}

}  // namespace gpuplan
