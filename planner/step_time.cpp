#include "planner/step_time.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/work_count.h"
#include "planner/instruction_cost.h"
#include "planner/program_walk.h"

namespace gpuplan {
namespace {

/// When an instruction ends, in seconds of the step.
struct Instant {
  double seconds{};
  void join(Instant other) { seconds = seconds < other.seconds ? other.seconds : seconds; }  // in a register
};

/// Clocks of one class while it runs.
struct Clock {
  ProgramCursor at;
  WaitingRule<Instant> waits;
  std::array<double, kNumStreams> busy{};
  // Gathers and reductions of one axis share its links: one after the other they take as long as side by side.
  std::array<double, kNumAxes> links_free{};
  double host{}, end{}, flops{};
  std::array<std::size_t, 2> received{};
  CommunicationSpans communication;  // known so far, in program order

  // The turns of a repeat soon all take the same time; then the rest of them is one shift.
  static constexpr std::size_t kNumClocks = 3 * std::size_t(kNumStreams) + kNumAxes + 3;
  using AllClocks = std::array<double, kNumClocks>;
  AllClocks turn_start{}, turn_delta{};
  double turn_began{};
  std::uint32_t turns_done{};
  bool has_neighbours{};  // stages of a pipeline exchange messages: their turns are skipped together

  void reset(const RankProgram& program, bool is_stage) {
    waits.reset(program);
    busy = {};
    links_free = {};
    host = end = flops = 0;
    received = {};
    communication.clear();
    has_neighbours = is_stage;
    at = ProgramCursor(program, *this);
  }
  template <class Use>
  void each_clock(Use use) {
    for (auto* moments : {&waits.tails(), &waits.gates()})
      for (Instant& t : *moments) use(t.seconds);
    for (double& t : busy) use(t);
    for (double& t : links_free) use(t);
    use(host), use(flops), use(end);
  }
  AllClocks all_clocks() {
    AllClocks out;
    std::size_t k = 0;
    each_clock([&](double t) { out[k++] = t; });
    return out;
  }

  void begin_repeat() {
    turns_done = 0;
    turn_start = all_clocks();
    turn_began = end;
  }
  bool skips(std::uint32_t left) {
    if (left == 0 || has_neighbours) return false;
    const AllClocks delta = last_turn();
    if (!repeats(delta)) {
      keep_turn(delta);
      return false;
    }
    shift(delta, left);
    return true;
  }
  /// How far the turn that has ended moved the clocks.
  AllClocks last_turn() {
    AllClocks delta = all_clocks();
    for (std::size_t k = 0; k < delta.size(); ++k) delta[k] -= turn_start[k];
    return delta;
  }
  /// Two turns in a row that moved every clock alike are the periodic regime of a max-plus system: the remaining turns
  /// then shift all clocks by the same amounts.
  bool repeats(const AllClocks& delta) const {
    for (std::size_t k = 0; k < delta.size(); ++k)
      if (!(std::abs(delta[k] - turn_delta[k]) <= 1e-9 * std::abs(delta[k]))) return false;
    return turns_done >= 1;
  }
  void keep_turn(const AllClocks& delta) {
    ++turns_done;
    turn_start = all_clocks(), turn_delta = delta, turn_began = end;
  }
  void shift(const AllClocks& delta, double turns) {
    const double by = turns * delta.back();
    for (auto& use : waits.uses())
      for (Instant* t : {&use.written, &use.read})
        if (t->seconds >= turn_began) t->seconds += by;
    communication.shift(turn_began, by);
    std::size_t k = 0;
    each_clock([&](double& t) { t += turns * delta[k++]; });
  }
};

/// When what `i` waits for has ended. Not inlined: beside the calls of its user, which save no floating-point register,
/// the moment would be kept in memory while the operands are looked at.
[[gnu::noinline]] double ready_at(WaitingRule<Instant>& waits, const Instruction& i) { return waits.begin(i).seconds; }

struct Mail {
  std::array<std::vector<double>, 2> times;
};  // [direction]: when a message to this class is there

std::vector<Clock>& clocks() {
  static thread_local std::vector<Clock> all;
  return all;
}

class ForwardPass {
 public:
  ForwardPass(const StepProgram& all, std::span<const CostModel> columns, const CommModel& comm)
      : all_(all),
        columns_(columns),
        comm_(comm) {}

  StepTime run() {
    auto& c = clocks();
    c.resize(std::max(c.size(), all_.classes.size()));
    for (std::size_t k = 0; k < all_.classes.size(); ++k)
      c[k].reset(all_.programs[all_.classes[k].program], all_.mesh.num_stages() > 1 || all_.has_one_host);
    mail_.resize(all_.classes.size());
    turn_at_.assign(all_.classes.size(), std::numeric_limits<std::uint32_t>::max());
    advance(0, c[0]);
    for (bool moved = true; moved;) {  // the first stage when no other can: what it sends is not to pile up
      moved = false;
      for (std::size_t k = 1; k < all_.classes.size(); ++k) moved |= advance(k, c[k]);
      if (!moved) moved = advance(0, c[0]);
    }
    StepTime out;
    double flops = 0;
    std::int64_t num_ranks = 0;
    for (std::size_t k = 0; k < all_.classes.size(); ++k) {
      GPUPLAN_CHECK(c[k].at.is_done(), "the classes of a step program wait for each other");
      const auto busy = [&](StreamId s) { return c[k].busy[std::size_t(s)]; };
      out.step.value = std::max(out.step.value, c[k].end);
      out.compute.value = std::max(out.compute.value, busy(StreamId::Compute));
      out.communication.value = std::max(out.communication.value, busy(StreamId::Gather) + busy(StreamId::Reduce) +
                                                                      busy(StreamId::Send) + busy(StreamId::Recv) +
                                                                      busy(StreamId::CopyIn) + busy(StreamId::CopyOut));
      out.host.value = std::max(out.host.value, c[k].host);
      flops += c[k].flops * double(all_.classes[k].num_ranks);
      num_ranks += all_.classes[k].num_ranks;
    }
    count_work(Work::Instructions, num_executed_);
    out.flops = flops / double(std::max<std::int64_t>(num_ranks, 1));
    out.exposed = Seconds{std::max(0.0, out.step.value - out.compute.value)};
    return out;
  }

 private:
  /// Layers repeat: most collectives are one of the last few again.
  double collective(const Instruction& i) {
    for (const KnownCollective& k : known_)
      if (k.op == i.op && k.axis == i.axis && k.work == i.work && k.messages == i.messages) return k.time;
    KnownCollective& oldest = known_[next_known_++ % known_.size()];
    oldest = {i.op, i.axis, i.work, i.messages,
              (i.op == OpCode::AllReduce ? comm_.all_reduce_time(i.axis, i.work)
                                         : comm_.gather_time(i.axis, i.work, i.messages))
                  .value};
    return oldest.time;
  }

  static bool moves_data(OpCode op) {
    return takes_multiprocessors(op) || op == OpCode::CopyIn || op == OpCode::CopyOut;
  }

  /// Seconds that a transfer takes, or none where `i` moves no data.
  double transfer(const RankProgram& p, const Instruction& i) {
    switch (i.op) {
      case OpCode::AllGather:
      case OpCode::ReduceScatter:
      case OpCode::AllReduce: return collective(i);
      case OpCode::Send: return comm_.send_time(i.axis, i.work).value;
      case OpCode::CopyIn:
      case OpCode::CopyOut: return (i.work / (uses_nvme(p, i) ? comm_.nvme : comm_.host_link)).value;
      default: return 0;
    }
  }

  bool advance(std::size_t k, Clock& c) {
    const RankClass& rank_class = all_.classes[k];
    if (k == 0 && std::exchange(turn_is_over_, false)) skip_turns_of_stages();
    bool moved = false;
    while (!c.at.is_done()) {
      const Instruction& i = c.at.instruction();
      const std::size_t direction = std::size_t(i.direction);
      if (i.op == OpCode::Recv && mail_[k].times[direction].size() <= c.received[direction]) return moved;
      moved = true;
      ++num_executed_;
      if (i.op == OpCode::Release)
        c.waits.release(i);
      else
        execute(k, c, i, rank_class);
      c.at.advance(c);
      if (k > 0 || !c.has_neighbours || !c.at.is_at_next_turn()) continue;
      turn_is_over_ = true;
      break;
    }
    return moved;
  }

  /// Stages that have moved alike in two turns of the first one move so in all that are left, but the last: it is run.
  void skip_turns_of_stages() {
    std::vector<Clock>& all = clocks();
    std::uint32_t left = all[0].at.turns_after();
    for (std::size_t k = 0; k < all_.classes.size(); ++k) {
      left = std::min(left, all[k].at.turns_after());
      for (std::size_t direction = 0; direction < 2; ++direction)
        if (mail_[k].times[direction].size() != all[k].received[direction]) return;  // a message is under way
    }
    const double host_delta = host_ - turn_host_;
    bool is_periodic = true;
    std::vector<Clock::AllClocks> deltas;
    for (std::size_t k = 0; k < all_.classes.size(); ++k) {
      deltas.push_back(all[k].last_turn());
      is_periodic = is_periodic && all[k].at.index() == turn_at_[k] && all[k].repeats(deltas.back());
    }
    for (std::size_t k = 0; k < all_.classes.size(); ++k) {
      turn_at_[k] = all[k].at.index();
      if (is_periodic && left > 0) {
        all[k].shift(deltas[k], left);
        all[k].at.skip_turns(left);
      } else {
        all[k].keep_turn(deltas[k]);
      }
    }
    if (is_periodic) host_ += host_delta * left;
    turn_host_ = host_;
  }

  void execute(std::size_t k, Clock& c, const Instruction& i, const RankClass& rank_class) {
    const RankProgram& p = all_.programs[rank_class.program];
    const CostModel& device = columns_[rank_class.costs];
    if (all_.has_one_host) c.host = host_;
    const InstructionCost cost = cost_of(all_, p, i, rank_class.costs, device, comm_);
    const double free = c.waits.tail(i.stream).seconds, launched = c.host;
    double start = std::max(ready_at(c.waits, i), launched);
    if (is_collective(i.op)) {  // a stream that was idle hands over while the links may still be busy
      const double hand_over = start > free ? comm_.hand_over(i.axis).value : 0;
      start = std::max(start, c.links_free[std::size_t(i.axis)] - hand_over) + hand_over;
      c.busy[std::size_t(i.stream)] += hand_over;
    }
    double work = cost.work.value;
    if (i.stream == StreamId::Compute && !moves_data(i.op))
      work = c.communication.finish(start, work, device.overlap_slowdown) - start;
    else
      work += transfer(p, i);
    double finish = std::max(start + work, launched + cost.host_tail.value);
    c.host += cost.launching.value;
    host_ = c.host;
    c.flops += cost.flops;
    const std::size_t direction = std::size_t(i.direction);
    if (i.op == OpCode::Recv) finish = std::max(start, mail_[k].times[direction][c.received[direction]++]);
    if (takes_multiprocessors(i.op)) {
      // A collective that waits for its launches moves nothing meanwhile.
      const double ended = i.op == OpCode::Recv ? finish : start + work;
      const double began = i.op == OpCode::Recv ? finish - comm_.send_time(i.axis, i.work).value : start;
      c.busy[std::size_t(StreamId::Compute)] += c.communication.add(began, ended, device.overlap_slowdown);
      c.waits.tails()[std::size_t(StreamId::Compute)].join({c.communication.compute_end()});
      c.end = std::max(c.end, c.communication.compute_end());
    }
    if (i.op == OpCode::Send)
      mail_[i.direction == Direction::Forward ? k + 1 : k - 1].times[direction].push_back(finish);
    if (is_collective(i.op)) c.links_free[std::size_t(i.axis)] = finish;
    c.waits.end(i, {finish});
    c.busy[std::size_t(i.stream)] += i.op == OpCode::Recv ? 0 : work;
    c.end = std::max(c.end, finish);
  }

  /// Collectives, sends and receives are kernels; copies to and from the host have engines of their own.
  static bool takes_multiprocessors(OpCode op) { return op >= OpCode::AllGather && op <= OpCode::Recv; }

  struct KnownCollective {
    OpCode op{};  // Call: no collective yet
    Axis axis{};
    Bytes work;
    std::uint16_t messages{};
    double time{};
  };
  std::array<KnownCollective, 4> known_{};
  std::size_t next_known_ = 0;
  std::int64_t num_executed_ = 0;
  const StepProgram& all_;
  std::span<const CostModel> columns_;
  const CommModel& comm_;
  std::vector<Mail> mail_;
  double host_{};                       // of the thread that launches for all classes, where there is one
  double turn_host_{};                  // when the first stage last began a turn
  bool turn_is_over_{};                 // of the first stage
  std::vector<std::uint32_t> turn_at_;  // then: the instructions that were next
};

}  // namespace

StepTime forward_pass(const StepProgram& program, std::span<const CostModel> columns, const CommModel& comm) {
  return ForwardPass(program, columns, comm).run();
}

}  // namespace gpuplan
