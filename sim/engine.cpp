#include "sim/engine.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "base/error.h"
#include "base/narrow.h"
#include "base/random_bits.h"
#include "planner/instruction_cost.h"
#include "sim/activity.h"
#include "sim/rank_tasks.h"

namespace gpuplan {
namespace {

// What makes ranks differ uses no libm: the same seed gives the same bytes anywhere.

/// Nearly normal, mean 0, deviation 1: the sum of twelve uniform numbers less 6.
double normal(std::uint64_t state) {
  double sum = 0;
  for (int k = 0; k < 12; ++k) {
    state = random_bits(state);
    sum += double(state >> 11) * 0x1p-53;
  }
  return sum - 6;
}

/// Factor on the time of one task: mean 1, standard deviation `options.jitter`, at least 0.1.
double jitter_factor(const SimOptions& options, std::int64_t rank, std::uint32_t task) {
  if (options.jitter <= 0) return 1;
  const std::uint64_t key = random_bits(options.seed) ^ random_bits(std::uint64_t(rank) << 32 | task);
  return std::max(0.1, 1 + options.jitter * normal(key));
}

enum EventKind : std::uint8_t { kStart, kEnd, kArrive };

struct Rank {
  explicit Rank(const RankProgram& program) : tasks(program) {}
  RankTasks tasks;
  std::size_t column{};
  double disturbance = 1;        // factor on its compute time
  SimTime host;                  // when the host launches the next kernel
  std::int64_t num_transfers{};  // collectives and messages under way: they slow its compute down
  std::array<TaskId, kNumStreams> running{};
  std::array<SimTime, kNumStreams> free{};  // when the stream's last task ended
  /// Collectives that are issued and not over. A communicator of NCCL works on one at a time, in the order in which
  /// they were issued, whatever their streams (pytorch/pytorch#186335: all-gathers and reduce-scatters of FSDP).
  /// By closed form, axes whose links are the same share a queue; as flows they share the links.
  std::array<std::deque<TaskId>, kNumAxes> collectives;
  std::uint32_t num_stamps{};
  double flops{};
  struct Mail {
    std::deque<std::uint32_t> arrived;  // spans of sends
    std::int64_t num_launched{};        // sends that the host has launched, less the receives
    TaskId waiting{};                   // a receive that has begun
  };
  std::array<Mail, 2> mail;  // forward, backward
};

/// Says who takes part in what the network moves.
struct Transfer {
  struct Member {
    std::uint32_t rank{};
    TaskId task{};
  };
  std::vector<Member> members;
  std::size_t num_joined{};
  SimTime last_join;
  std::uint32_t last_cause{Span::kNoSpan};  // what the last to join had waited for
};

class StepRun {
 public:
  StepRun(const SimInput& input, const SimOptions& options, const Folding& folding, const Communicators& communicators,
          Network& network, EventQueue& queue)
      : in_(input),
        options_(options),
        folding_(folding),
        communicators_(communicators),
        network_(network),
        queue_(queue) {}

  EngineResult run();

 private:
  const Instruction& instruction(const Rank& r, const Task& t) const {
    return r.tasks.program().instructions[t.instruction];
  }
  const CostModel& device(const Rank& r) const { return in_.columns.models[r.column]; }
  InstructionCost cost_of(const Rank& r, const Instruction& i) const {
    return gpuplan::cost_of(in_.program, r.tasks.program(), i, r.column, device(r), in_.comm);
  }
  /// The real rank of the next stage, or of the one before.
  std::int64_t peer_of(const Rank& sender, const Instruction& i) const {
    const std::int64_t stride = in_.program.mesh.stride(i.axis), world = in_.program.mesh.world();
    return (folding_.ranks[index_of(sender)] + (i.direction == Direction::Forward ? stride : world - stride)) % world;
  }
  std::size_t queue_of(Axis axis) const {
    return std::size_t(options_.network == NetworkFidelity::Analytic ? in_.comm.queue_of(axis) : axis);
  }
  Rank& rank_of(std::int64_t real) { return ranks_[folding_.representative[std::size_t(real)]]; }
  std::uint32_t index_of(const Rank& r) const { return narrow<std::uint32_t>(&r - ranks_.data()); }

  void make_ranks();
  void fill(Rank& rank);
  void fill_all();
  void issue(Rank& rank, SimTime& host);
  void ready(Rank& rank, Task& task);
  void start(Rank& rank, Task& task);
  void start_work(Rank& rank, Task& task, const Instruction& i);
  void hand_over(Rank& rank, Task& task, const Instruction& i);
  void arrive(Rank& rank, Task& task);
  void join(Rank& rank, Task& task, const Instruction& i);
  void take_turn(Rank& rank, Axis axis, std::uint32_t cause);
  void send(Rank& rank, Task& task, const Instruction& i);
  void receive(Rank& rank, Task& task, const Instruction& i);
  void deliver(const Rank& sender, const Instruction& i, std::uint32_t span);
  void own_transfer(std::uint32_t transfer, Rank& rank, Task& task);
  void transfers_finished();
  void handle(const SimEvent& event);
  std::uint32_t finish(Rank& rank, Task& task);
  std::uint32_t record(Rank& rank, const Task& task);

  void change_transfers(Rank& rank, std::int64_t by);
  void change_computing(std::int64_t by);
  void update_speed(Rank& rank, double before, double after);
  void schedule_end(Rank& rank, Task& task, double speed);
  double speed(const Rank& rank) const {
    return (rank.num_transfers > 0 ? 1 / (1 + device(rank).overlap_slowdown) : 1.0) * share_;
  }
  double core_share() const;

  const SimInput& in_;
  const SimOptions& options_;
  const Folding& folding_;
  const Communicators& communicators_;
  Network& network_;
  EventQueue& queue_;
  SimTime now_;
  std::vector<Rank> ranks_;
  std::uint32_t made_room_{Span::kNoSpan};  // the span whose end lets the host run further ahead; at first the start
  std::size_t issuing_{};                   // of one host: the rank whose kernels it launches
  SimTime host_;
  std::vector<Transfer> transfers_;
  /// Per communicator: transfers that not everybody has joined, and how many each member has joined.
  struct Sequence {
    std::deque<std::uint32_t> open;
    std::uint64_t num_before{};  // transfers that everybody joined
    std::vector<std::uint64_t> num_joined;
  };
  std::vector<Sequence> sequences_;
  std::int64_t num_computing_{};
  double share_ = 1;  // of the cores that a rank's rate stands for, when ranks share them
  EngineResult out_;
  std::vector<Finished> finished_;
};

void StepRun::make_ranks() {
  ranks_.reserve(folding_.ranks.size());
  for (const std::int64_t rank : folding_.ranks) {
    Rank& r = ranks_.emplace_back(in_.program.programs[in_.program.classes[in_.program.class_of(rank)].program]);
    r.column = in_.columns.own_of_rank[std::size_t(rank)];
    r.disturbance = straggler_factor(options_, rank);
  }
  sequences_.resize(communicators_.all.size());
  for (std::size_t c = 0; c < sequences_.size(); ++c)
    sequences_[c].num_joined.assign(communicators_.all[c].ranks.size(), 0);
  num_computing_ = 0;
  share_ = core_share();
}

EngineResult StepRun::run() {
  make_ranks();
  for (Rank& rank : ranks_) fill(rank);  // of one host, the first call fills all
  network_.settle(now_);
  while (!queue_.empty()) {
    now_ = queue_.next_time();
    while (!queue_.empty() && queue_.next_time() == now_) {
      const SimEvent event = queue_.pop();
      if (event.target == EventTarget::Engine) {
        handle(event);
        continue;
      }
      network_.handle(event, finished_);
      if (!finished_.empty()) transfers_finished();
    }
    network_.settle(now_);
  }
  for (const Rank& rank : ranks_) {
    GPUPLAN_CHECK(rank.tasks.is_done(), "the ranks of a simulation wait for each other");
    out_.flops.push_back(rank.flops);
  }
  for (const Span& span : out_.spans) out_.step = std::max(out_.step, span.end);
  out_.num_events = queue_.num_popped();
  return std::move(out_);
}

/// The host issues as far ahead as it may; kernels leave it one after the other.
void StepRun::fill(Rank& rank) {
  if (in_.program.has_one_host) return fill_all();
  while (rank.tasks.can_issue()) issue(rank, rank.host);
}

/// One thread launches for all stages, in the order of the forward pass: a stage until it needs a message that no other
/// has launched yet, then the next one.
void StepRun::fill_all() {
  for (std::size_t num_blocked = 0; num_blocked < ranks_.size();) {
    Rank& rank = ranks_[issuing_];
    const Instruction* const next = rank.tasks.next();
    const bool is_blocked =
        !next || (next->op == OpCode::Recv && rank.mail[std::size_t(next->direction)].num_launched == 0);
    if (is_blocked) {
      issuing_ = (issuing_ + 1) % ranks_.size();
      ++num_blocked;
      continue;
    }
    if (!rank.tasks.can_issue()) return;
    num_blocked = 0;
    if (next->op == OpCode::Recv) --rank.mail[std::size_t(next->direction)].num_launched;
    if (next->op == OpCode::Send) ++rank_of(peer_of(rank, *next)).mail[std::size_t(next->direction)].num_launched;
    issue(rank, host_);
  }
}

void StepRun::issue(Rank& rank, SimTime& host) {
  Task* const task = rank.tasks.issue();
  if (!task) return;
  const Instruction& i = instruction(rank, *task);
  const InstructionCost cost = cost_of(rank, i);
  task->launched = host;
  host += to_sim_time(cost.launching);
  task->floor = task->launched + to_sim_time(cost.host_tail);
  rank.flops += cost.flops;
  if (is_collective(i.op)) rank.collectives[queue_of(i.axis)].push_back(task->id);
  if (task->num_waiting > 0) return;
  task->cause = made_room_;
  ready(rank, *task);
}

void StepRun::ready(Rank& rank, Task& task) {
  if (task.launched > now_) {
    task.cause = Span::kNoSpan;
    queue_.push({task.launched, EventTarget::Engine, kStart, index_of(rank), task.id});
  } else {
    start(rank, task);
  }
}

void StepRun::start(Rank& rank, Task& task) {
  const Instruction& i = instruction(rank, task);
  task.begin = task.updated = now_;
  rank.running[std::size_t(task.stream)] = task.id;
  if (is_collective(i.op)) return hand_over(rank, task, i);
  task.state = Task::State::Running;
  if (i.op == OpCode::Send) return send(rank, task, i);
  if (i.op == OpCode::Recv) return receive(rank, task, i);
  if (i.op == OpCode::CopyIn || i.op == OpCode::CopyOut) {
    const bool is_in = i.op == OpCode::CopyIn, nvme = uses_nvme(rank.tasks.program(), i);
    const HostCopy kind = nvme ? (is_in ? HostCopy::NvmeToHost : HostCopy::HostToNvme)
                               : (is_in ? HostCopy::HostToDevice : HostCopy::DeviceToHost);
    return own_transfer(network_.copy(folding_.ranks[index_of(rank)], kind, i.work, now_), rank, task);
  }
  start_work(rank, task, i);
}

void StepRun::start_work(Rank& rank, Task& task, const Instruction& i) {
  const Seconds work = cost_of(rank, i).work;
  const double noise = jitter_factor(options_, folding_.ranks[index_of(rank)], task.id);
  task.remaining = work.value * rank.disturbance * noise;
  if (task.stream == StreamId::Compute && i.op == OpCode::Call) change_computing(1);
  schedule_end(rank, task, task.stream == StreamId::Compute ? speed(rank) : 1.0);
}

void StepRun::schedule_end(Rank& rank, Task& task, double speed) {
  task.stamp = ++rank.num_stamps;
  const SimTime end = now_ + to_sim_time(Seconds{task.remaining / speed});
  task.worked = end;
  queue_.push({std::max(end, task.floor), EventTarget::Engine, kEnd,
               index_of(rank) * std::uint32_t(kNumStreams) + std::uint32_t(task.stream), task.stamp});
}

void StepRun::handle(const SimEvent& event) {
  if (event.kind == kStart || event.kind == kArrive) {
    Rank& rank = ranks_[event.index];
    Task& task = rank.tasks.at(event.stamp);
    return event.kind == kStart ? start(rank, task) : arrive(rank, task);
  }
  Rank& rank = ranks_[event.index / std::uint32_t(kNumStreams)];
  Task& task = rank.tasks.at(rank.running[event.index % std::uint32_t(kNumStreams)]);
  if (task.state != Task::State::Running || task.stamp != event.stamp) return;  // its speed changed meanwhile
  const bool computes = task.stream == StreamId::Compute && instruction(rank, task).op == OpCode::Call;
  finish(rank, task);
  if (computes) change_computing(-1);
}

/// A stream that was idle takes a moment, in which its communicator may still be busy.
void StepRun::hand_over(Rank& rank, Task& task, const Instruction& i) {
  const SimTime moment = to_sim_time(in_.comm.hand_over(i.axis));
  if (moment > SimTime{} && now_ > rank.free[std::size_t(i.stream)])
    queue_.push({now_ + moment, EventTarget::Engine, kArrive, index_of(rank), task.id});
  else
    arrive(rank, task);
}

void StepRun::arrive(Rank& rank, Task& task) {
  const Instruction& i = instruction(rank, task);
  task.state = Task::State::Arrived;
  if (rank.collectives[queue_of(i.axis)].front() == task.id) join(rank, task, i);
}

/// A collective of `axis` is over: the next one, if it had to wait for that.
void StepRun::take_turn(Rank& rank, Axis axis, std::uint32_t cause) {
  const std::deque<TaskId>& collectives = rank.collectives[queue_of(axis)];
  if (collectives.empty()) return;
  Task& task = rank.tasks.at(collectives.front());
  if (task.state != Task::State::Arrived) return;
  task.begin = now_;
  task.cause = cause;
  join(rank, task, instruction(rank, task));
}

/// The k-th collective on a communicator is the same one for all of its members.
void StepRun::join(Rank& rank, Task& task, const Instruction& i) {
  const Communicators::Place place = communicators_.of_rank[index_of(rank)][std::size_t(i.axis)];
  const CommGroup& c = communicators_.all[place.communicator];
  Sequence& sequence = sequences_[place.communicator];
  const std::uint64_t number = sequence.num_joined[place.member]++;
  if (number == sequence.num_before + sequence.open.size()) {
    const Seconds alone = i.op == OpCode::AllReduce ? in_.comm.all_reduce_time(i.axis, i.work)
                                                    : in_.comm.gather_time(i.axis, i.work, i.messages);
    const double exposed = exposed_share(in_.program, i, rank.column, alone, device(rank).overlap_slowdown);
    const std::uint32_t id =
        network_.open({.kind = collective_of(i.op),
                       .communicator = place.communicator,
                       .message = std::max(Bytes{1}, Bytes{std::llround(double(i.work.count) * exposed)}),
                       .num_messages = i.messages});
    if (transfers_.size() <= id) transfers_.resize(id + 1);
    transfers_[id] = {.members = std::vector<Transfer::Member>(c.ranks.size())};
    sequence.open.push_back(id);
  }
  const std::uint32_t id = sequence.open[std::size_t(number - sequence.num_before)];
  Transfer& transfer = transfers_[id];
  transfer.members[place.member] = {index_of(rank), task.id};
  transfer.last_join = std::max(transfer.last_join, task.begin);
  transfer.last_cause = task.cause;
  if (++transfer.num_joined == transfer.members.size()) {
    GPUPLAN_CHECK(sequence.open.front() == id, "collectives of a communicator are joined in order");
    sequence.open.pop_front();
    ++sequence.num_before;
  }
  task.state = Task::State::Running;
  change_transfers(rank, 1);
  network_.join(id, place.member, now_);
}

void StepRun::own_transfer(std::uint32_t id, Rank& rank, Task& task) {
  if (transfers_.size() <= id) transfers_.resize(id + 1);
  transfers_[id] = {
      .members = {{index_of(rank), task.id}}, .num_joined = 1, .last_join = now_, .last_cause = task.cause};
}

void StepRun::send(Rank& rank, Task& task, const Instruction& i) {
  const std::int64_t from = folding_.ranks[index_of(rank)], to = peer_of(rank, i);
  change_transfers(rank, 1);
  change_transfers(rank_of(to), 1);
  own_transfer(network_.send({i.axis, from, to}, i.work, now_), rank, task);
}

void StepRun::receive(Rank& rank, Task& task, const Instruction& i) {
  Rank::Mail& mail = rank.mail[std::size_t(i.direction)];
  if (mail.arrived.empty()) {
    mail.waiting = task.id;
    return;
  }
  const std::uint32_t span = mail.arrived.front();
  mail.arrived.pop_front();
  out_.messages.push_back({span, narrow<std::uint32_t>(out_.spans.size())});
  finish(rank, task);
}

/// A message is with its receiver, who may be waiting for it.
void StepRun::deliver(const Rank& sender, const Instruction& i, std::uint32_t span) {
  Rank& receiver = rank_of(peer_of(sender, i));
  change_transfers(receiver, -1);
  Rank::Mail& mail = receiver.mail[std::size_t(i.direction)];
  if (mail.waiting == 0) {
    mail.arrived.push_back(span);
    return;
  }
  Task& task = receiver.tasks.at(mail.waiting);
  mail.waiting = 0;
  task.cause = span;
  const SimTime moving = out_.spans[span].end - out_.spans[span].begin;
  task.work = std::min(moving, now_ - task.begin).seconds().value;
  out_.messages.push_back({span, narrow<std::uint32_t>(out_.spans.size())});
  finish(receiver, task);
}

/// All of one event at once: an id that has finished for everybody may be given to the next transfer.
void StepRun::transfers_finished() {
  struct Ended {
    std::uint32_t rank;
    TaskId task;
    std::uint32_t cause;
    SimTime last_join;
  };
  std::vector<Ended> ended;
  for (const Finished& f : finished_) {
    const Transfer& transfer = transfers_[f.transfer];
    const Transfer::Member member = transfer.members[f.member];
    ended.push_back({member.rank, member.task, transfer.last_cause, transfer.last_join});
  }
  finished_.clear();
  for (const Ended& e : ended) {
    Rank& rank = ranks_[e.rank];
    Task& task = rank.tasks.at(e.task);
    const Instruction& i = instruction(rank, task);
    const bool is_shared = is_collective(i.op);
    if (is_shared) {
      task.cause = e.cause;
      rank.collectives[queue_of(i.axis)].pop_front();
    }
    task.work = (now_ - std::max(e.last_join, task.begin)).seconds().value;
    if (i.op != OpCode::CopyIn && i.op != OpCode::CopyOut) change_transfers(rank, -1);
    const bool is_send = i.op == OpCode::Send;
    const std::uint32_t span = finish(rank, task);
    if (is_send) deliver(rank, i, span);
    if (is_shared) take_turn(rank, i.axis, span);
  }
}

/// Returns the span. `task` may stand for another one afterwards: its slot is free.
std::uint32_t StepRun::finish(Rank& rank, Task& task) {
  const std::uint32_t span = record(rank, task);
  rank.free[std::size_t(task.stream)] = now_;
  const std::vector<TaskId> successors = std::move(task.successors);
  rank.tasks.retire(task);
  for (const TaskId id : successors) {
    Task& next = rank.tasks.at(id);
    if (--next.num_waiting > 0) continue;
    next.cause = span;
    ready(rank, next);
  }
  made_room_ = span;
  fill(rank);
  return span;
}

std::uint32_t StepRun::record(Rank& rank, const Task& task) {
  const Instruction& i = instruction(rank, task);
  Span& span = out_.spans.emplace_back();
  span.begin = task.begin;
  span.end = now_;
  span.rank = index_of(rank);
  span.number = task.id;
  span.instruction = task.instruction;
  span.cause = task.cause;
  span.stream = task.stream;
  span.activity = activity_of(i);
  span.axis = i.axis;
  span.unit = i.unit;
  span.micro_batch = task.micro_batch;
  span.waits_for_host = task.cause == Span::kNoSpan && task.launched.ps > 0;
  span.is_async_kernel = is_collective(i.op);
  span.bytes = i.op == OpCode::Call ? Bytes{} : i.work;
  const SimTime worked = task.worked > task.begin ? task.worked - task.begin : to_sim_time(Seconds{task.work});
  span.active = std::min(worked, now_ - task.begin);
  return narrow<std::uint32_t>(out_.spans.size() - 1);
}

/// A running collective or message takes SMs and memory bandwidth from the compute beside it.
void StepRun::change_transfers(Rank& rank, std::int64_t by) {
  const double before = speed(rank);
  rank.num_transfers += by;
  update_speed(rank, before, speed(rank));
}

void StepRun::update_speed(Rank& rank, double before, double after) {
  if (before == after) return;
  const TaskId id = rank.running[std::size_t(StreamId::Compute)];
  if (id == 0) return;
  Task& task = rank.tasks.at(id);
  if (task.id != id || task.state != Task::State::Running) return;
  if (task.stamp == 0) return;  // a copy between kernels, whose end is the network's
  task.remaining = std::max(0.0, task.remaining - (now_ - task.updated).seconds().value * before);
  task.updated = now_;
  schedule_end(rank, task, after);
}

/// CPU ranks beyond the cores of their host share them: rates stand for an equal share, fewer busy ranks get more.
double StepRun::core_share() const {
  const double ranks = double(in_.program.mesh.ranks_per_stage()), cores = double(in_.job.request.cluster.host_cores);
  if (cores <= 0 || ranks <= cores) return 1;
  return std::min(ranks / cores, ranks / double(std::max<std::int64_t>(1, num_computing_)));
}

void StepRun::change_computing(std::int64_t by) {
  num_computing_ += by;
  const double share = core_share();
  if (share == share_) return;
  std::vector<double> before;
  for (const Rank& rank : ranks_) before.push_back(speed(rank));
  share_ = share;
  for (Rank& rank : ranks_) update_speed(rank, before[index_of(rank)], speed(rank));
}

}  // namespace

EngineResult run_engine(const SimInput& input, const SimOptions& options, const Folding& folding,
                        const Communicators& communicators, Network& network, EventQueue& queue) {
  return StepRun(input, options, folding, communicators, network, queue).run();
}

}  // namespace gpuplan
