#include "run/executor.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/narrow.h"

namespace gpuplan {

using namespace operand;

static const RankProgram& program_of(const NativeJob& job, const RankPlace& place) {
  const StepProgram& all = job.program();
  return all.programs[all.classes[all.class_of(place.rank)].program];
}

/// The most that a pass needs while it runs.
static Bytes arena_of_passes(const NativeJob& job, const RankPlace& place) {
  Bytes most;
  for (const NativePass& pass : job.passes())
    most = std::max(most, RankMemory::arena_of(*pass.job, program_of(*pass.job, place)));
  return most;
}

Executor::Executor(const NativeJob& job, const RankPlace& place, Device& device, Communicator* world,
                   std::int64_t run_id)
    : Executor(job, place, device, world, run_id,
               RankMemory(job, program_of(job, place), device, arena_of_passes(job, place))) {
  for (const NativePass& pass : job.passes())
    passes_.emplace_back(new Executor(*pass.job, pass.has_own_weights, *this, world));
}

Executor::Executor(const NativeJob& job, bool has_own_weights, const Executor& lender, Communicator* world)
    : Executor(job, lender.place_, lender.device_, world, lender.run_id_,
               RankMemory(job, program_of(job, lender.place_), lender.device_, lender.memory_, !has_own_weights)) {}

Executor::Executor(const NativeJob& job, const RankPlace& place, Device& device, Communicator* world,
                   std::int64_t run_id, RankMemory memory)
    : job_(job),
      place_(place),
      run_id_(run_id),
      device_(device),
      groups_(world, job.program(), job.strategy.mesh, place),
      memory_(std::move(memory)),
      loss_(answers_loss(job.recipe())) {
  bind();
  std::byte* const constants = memory_.persistent(memory_.find(memory_.program().first_unit, BufferRole::Constants));
  const ConstantsLayout layout = constants_layout(job.model.spec, job.recipe().seq_len);
  constants_ = {reinterpret_cast<double*>(constants + layout.loss_sum.count),
                reinterpret_cast<double*>(constants + layout.square_sum.count),
                reinterpret_cast<float*>(constants + layout.loss_scale.count),
                reinterpret_cast<float*>(constants + layout.cosine.count),
                reinterpret_cast<float*>(constants + layout.sine.count)};
}

Executor::~Executor() = default;

/// A graph cannot hold what runs on the host, as losses that compare answers do.
void Executor::use_graph() {
  if (device_.can_capture() && !job_.compares_answers()) graph_ = std::make_unique<StepGraph>(device_, groups_);
}

void Executor::load(const WeightSource& source) {
  offsets_ = load_state(job_, place_, memory_, source, device_);
  for (std::size_t i = 0; i < passes_.size(); ++i) {
    if (job_.passes()[i].has_own_weights)
      passes_[i]->load(source);
    else
      passes_[i]->offsets_ = offsets_;
  }
}

void Executor::abort() noexcept {
  groups_.abort();
  for (const auto& pass : passes_) pass->abort();
}

Bytes Executor::persistent_bytes() const {
  Bytes sum = memory_.persistent_bytes();
  for (const auto& pass : passes_) sum += pass->memory_.persistent_bytes();
  return sum;
}

Bytes Executor::host_bytes() const {
  Bytes sum = memory_.host_bytes();
  for (const auto& pass : passes_) sum += pass->memory_.host_bytes();
  return sum;
}

/// Pointers, and who waits for whom: fixed for all steps.
void Executor::bind() {
  const RankProgram& p = memory_.program();
  Hazards hazards;
  written_.resize(memory_.trace().lifetimes.size());
  for (const StepTask& task : memory_.trace().tasks) {
    const Instruction& i = p.instructions[task.instruction];
    Bound& bound = tasks_.emplace_back();
    bound.task = &task;
    bound.instruction = &i;
    std::vector<MemoryAccess> accesses;
    const auto touch = [&](const Piece& piece, bool is_write) {
      std::byte* const at = memory_.at(piece);
      if (at) accesses.push_back({at, at + memory_.size(piece).count, is_write});
      return at;
    };
    const auto operands = p.operands_of(i);
    for (std::size_t k = 0; k < operands.size(); ++k)
      bound.operands.push_back(touch(task.operands[k], (operands[k] & kWrite) != 0));
    for (const Piece& piece : task.locals) bound.locals.push_back(touch(piece, true));
    // a reduction may use its input as its own work space
    if (i.op == OpCode::ReduceScatter && !runs_block(i)) accesses.front().is_write = true;
    bound.waits = hazards.enter(narrow<std::uint32_t>(tasks_.size() - 1), i.stream, accesses);
    for (const std::uint32_t other : bound.waits)
      if (!tasks_[other].done) tasks_[other].done = device_.create_event();
    if (auto& stream = streams_[std::size_t(i.stream)]; !stream) stream = make_stream(i.stream);
    if (i.stream == StreamId::Host && !host_) open_host();
    if (i.op == OpCode::GradientNorm && i.stream != StreamId::Compute)
      device_.prepare(stream(i.stream));  // its sums need a workspace
  }
  if (auto& compute = streams_[std::size_t(StreamId::Compute)]; !compute) compute = make_stream(StreamId::Compute);
  device_.prepare(control());
  const auto is_step = [](const Bound& task) { return task.instruction->op == OpCode::OptimizerStep; };
  num_gradient_tasks_ = std::size_t(std::find_if(tasks_.begin(), tasks_.end(), is_step) - tasks_.begin());
}

std::unique_ptr<Stream> Executor::make_stream(StreamId id) {
  if (!groups_.world()) return device_.create_stream();
  return device_.create_stream_for(id == StreamId::Compute ? StreamUse::Compute : StreamUse::Communication);
}

StepResult Executor::step(std::int64_t number, const std::vector<MicroBatch>& batches, double learning_rate,
                          const OptimizerSettings& settings, bool stop) {
  GPUPLAN_CHECK(std::int64_t(batches.size()) == job_.recipe().grad_accum,
                "a step takes as many micro-batches as it accumulates");
  Scalars scalars{.learning_rate = learning_rate, .settings = settings, .number = number, .stop = stop};
  scalars.label_tokens = count_labels(number, batches);
  batches_of_step_ = &batches;
  reference_ = {};
  for (const auto& pass : passes_) reference_ = pass->run_pass(batches);
  share_ = 1 / std::max(1.0, scalars.label_tokens), loss_sum_ = 0;
  stage(batches, job_.compares_answers() ? 1 : scalars.label_tokens);
  if (graph_ && !records_)
    graph_->run(all_streams(), [&] { enqueue_gradients(scalars); });
  else
    enqueue_gradients(scalars);
  finish_gradients(scalars);
  for (std::size_t i = num_gradient_tasks_; i < tasks_.size(); ++i) run(tasks_[i], scalars);
  for (const auto& s : streams_)
    if (s) s->synchronise();
  return {scalars.loss, scalars.grad_norm, scalars.stop};
}

/// The compute stream first.
std::vector<Stream*> Executor::all_streams() {
  std::vector<Stream*> out{&control()};
  for (const auto& s : streams_)
    if (s && s.get() != out.front()) out.push_back(s.get());
  return out;
}

/// The same calls every time: what differs between steps is in the memory that they read.
void Executor::enqueue_gradients(const Scalars& scalars) {
  std::fill(written_.begin(), written_.end(), Written{});
  device_.run(kernels::Zero{constants_.loss_sum, bytes_of(2, Dtype::F64)}, control());
  load_scale();
  if (records_) start_record();
  for (std::size_t i = 0; i < num_gradient_tasks_; ++i) run(tasks_[i], scalars);
}

}  // namespace gpuplan
