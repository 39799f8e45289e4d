#include "planner/step_time.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "planner/instruction_cost.h"
#include "planner/overlap.h"

namespace gpuplan {
namespace {

using namespace operand;

/// Clocks of one class while it runs.
struct Clock {
  std::uint32_t pc{}, back{}, turns{};
  std::vector<double> written, read;  // per buffer: when it was last written, last read
  std::array<double, kNumStreams> free{}, gate{}, busy{};
  double host{}, end{}, flops{};
  std::array<std::size_t, 2> received{};
  CommunicationSpans communication;  // known so far, in program order

  // The turns of a repeat soon all take the same time; then the rest of them is one shift.
  static constexpr std::size_t kNumClocks = 3 * std::size_t(kNumStreams) + 3;
  std::array<double, kNumClocks> turn_start{}, turn_delta{};
  double turn_began{};
  std::uint32_t turns_done{};
  std::array<double, kNumClocks> all_clocks() const {
    std::array<double, kNumClocks> out{};
    std::size_t k = 0;
    for (const auto* part : {&free, &gate, &busy})
      for (const double t : *part) out[k++] = t;
    out[k++] = host, out[k++] = end, out[k] = flops;
    return out;
  }
  void advance_all(const std::array<double, kNumClocks>& delta, double times) {
    std::size_t k = 0;
    for (auto* part : {&free, &gate, &busy})
      for (double& t : *part) t += times * delta[k++];
    host += times * delta[k++], end += times * delta[k++], flops += times * delta[k];
  }
};

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
      reset(c[k], all_.programs[all_.classes[k].program].buffers.size());
    mail_.resize(all_.classes.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t k = 0; k < all_.classes.size(); ++k) moved |= advance(k, c[k]);
    }
    StepTime out;
    double flops = 0;
    std::int64_t num_ranks = 0;
    for (std::size_t k = 0; k < all_.classes.size(); ++k) {
      GPUPLAN_CHECK(c[k].pc == all_.programs[all_.classes[k].program].instructions.size(),
                    "the classes of a step program wait for each other");
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
    out.flops = flops / double(std::max<std::int64_t>(num_ranks, 1));
    out.exposed = Seconds{std::max(0.0, out.step.value - out.compute.value)};
    return out;
  }

 private:
  static void reset(Clock& c, std::size_t buffers) {
    c.pc = c.back = c.turns = 0;
    c.written.assign(buffers, 0);
    c.read.assign(buffers, 0);
    c.free = c.gate = c.busy = {};
    c.host = c.end = c.flops = 0;
    c.received = {};
    c.communication.clear();
  }

  /// Layers repeat: most collectives are the last one of their kind again.
  double collective(const Instruction& i) {
    LastCollective& last = last_[std::size_t(i.op)];
    if (last.axis == i.axis && last.work == i.work && last.messages == i.frame) return last.time;
    const std::int64_t messages = std::max<std::int64_t>(1, i.frame);
    last = {i.axis, i.work, i.frame,
            (i.op == OpCode::AllReduce ? comm_.all_reduce_time(i.axis, i.work)
                                       : comm_.gather_time(i.axis, i.work, messages))
                .value};
    return last.time;
  }

  double duration(const RankProgram& p, const Instruction& i, const RankClass& rank_class) {
    const CostModel& device = columns_[rank_class.costs];
    switch (i.op) {
      case OpCode::AllGather:
      case OpCode::ReduceScatter:
      case OpCode::AllReduce: return collective(i);
      case OpCode::Send: return comm_.send_time(i.work).value;
      case OpCode::CopyIn:
      case OpCode::CopyOut: return (i.work / (uses_nvme(all_, p, i) ? comm_.nvme : comm_.host_link)).value;
      default: return work_of(all_, p, i, rank_class.costs, device, comm_).value;
    }
  }

  void begin_repeat(Clock& c, std::uint32_t turns) const {
    c.back = c.pc;
    c.turns = turns;
    c.turns_done = 0;
    c.turn_start = c.all_clocks();
    c.turn_began = c.end;
  }

  /// True when another turn has to run. Two turns in a row that moved every clock alike are the periodic regime of a
  /// max-plus system: the remaining turns then shift all clocks by the same amounts. Pipelines exchange messages, so
  /// they run.
  bool end_turn(Clock& c) const {
    if (--c.turns == 0) return false;
    if (all_.classes.size() > 1) return true;
    const auto now = c.all_clocks();
    std::array<double, Clock::kNumClocks> delta{};
    bool is_periodic = ++c.turns_done >= 2;
    for (std::size_t k = 0; k < delta.size(); ++k) {
      delta[k] = now[k] - c.turn_start[k];
      is_periodic = is_periodic && std::abs(delta[k] - c.turn_delta[k]) <= 1e-9 * std::abs(delta[k]);
    }
    if (!is_periodic) {
      c.turn_start = now;
      c.turn_delta = delta;
      c.turn_began = c.end;
      return true;
    }
    const double shift = double(c.turns) * delta[Clock::kNumClocks - 2];
    for (auto* times : {&c.written, &c.read})
      for (double& t : *times)
        if (t >= c.turn_began) t += shift;
    c.communication.shift(c.turn_began, shift);
    c.advance_all(delta, double(c.turns));
    return false;
  }

  bool advance(std::size_t k, Clock& c) {
    const RankClass& rank_class = all_.classes[k];
    const RankProgram& p = all_.programs[rank_class.program];
    const CostModel& device = columns_[rank_class.costs];
    bool moved = false;
    for (; c.pc < p.instructions.size(); ++c.pc) {
      const Instruction& i = p.instructions[c.pc];
      if (i.op == OpCode::Repeat) {
        begin_repeat(c, i.frame);
        continue;
      }
      if (i.op == OpCode::EndRepeat) {
        if (end_turn(c)) c.pc = c.back;
        continue;
      }
      if (i.op == OpCode::Recv && mail_[k].times[i.frame].size() <= c.received[i.frame]) return moved;
      moved = true;
      execute(k, c, p, i, rank_class, device);
    }
    return moved;
  }

  void execute(std::size_t k, Clock& c, const RankProgram& p, const Instruction& i, const RankClass& rank_class,
               const CostModel& device) {
    const std::size_t s = std::size_t(i.stream);
    const bool is_release = i.op == OpCode::Release;
    double start = is_release ? 0 : c.free[s];
    const Operand* const begin = p.operands.data() + i.first_operand;
    const Operand* const end = begin + i.num_operands;
    if (i.op == OpCode::Call) start = std::max(start, c.gate[s]);
    for (const Operand* o = begin; o != end; ++o) {
      const std::uint32_t b = id(*o);
      if (*o & kAllocates) {
        start = std::max(start, c.gate[s]);
        c.written[b] = c.read[b] = 0;
      }
      if (*o & kRead) start = std::max(start, c.written[b]);
      if (*o & kWrite) start = std::max({start, c.written[b], c.read[b]});
    }
    const double launched = c.host;
    const Seconds launching = double(kernels_of(all_, i, rank_class.costs)) * device.dispatch;
    const double host_tail = host_tail_of(all_, i, rank_class.costs, launching).value;
    if (i.op == OpCode::Call) c.flops += all_.costs[rank_class.costs][i.block].flops;
    c.host += launching.value;
    if (!is_release) start = std::max(start, launched);
    double work = duration(p, i, rank_class);
    if (is_collective(i.op) && start > c.free[s]) work += comm_.hand_over(i.axis).value;
    if (i.op == OpCode::Call) work = c.communication.finish(start, work, device.overlap_slowdown) - start;
    double finish = std::max(start + work, is_release ? 0 : launched + host_tail);
    if (i.op == OpCode::Recv) finish = std::max(start, mail_[k].times[i.frame][c.received[i.frame]++]);
    if (takes_multiprocessors(i.op))
      c.communication.add(i.op == OpCode::Recv ? finish - comm_.send_time(i.work).value : start, finish);
    if (i.op == OpCode::Send) mail_[i.frame == 0 ? k + 1 : k - 1].times[i.frame].push_back(finish);
    if (!is_release) {
      c.free[s] = finish;
      c.busy[s] += i.op == OpCode::Recv ? 0 : work;
      c.end = std::max(c.end, finish);
    }
    for (const Operand* o = begin; o != end; ++o) {
      const std::uint32_t b = id(*o);
      if (*o & kRead) c.read[b] = std::max(c.read[b], is_release ? 0 : finish);
      if (*o & kWrite) c.written[b] = finish;
      if (*o & kFrees) {
        double& gate = c.gate[std::size_t(p.buffers[b].home)];
        gate = std::max({gate, c.read[b], c.written[b]});
      }
    }
  }

  /// Collectives, sends and receives are kernels; copies to and from the host have engines of their own.
  static bool takes_multiprocessors(OpCode op) { return op >= OpCode::AllGather && op <= OpCode::Recv; }

  struct LastCollective {
    Axis axis{};  // None: no collective yet
    Bytes work;
    std::uint32_t messages{};
    double time{};
  };
  std::array<LastCollective, std::size_t(OpCode::Count)> last_{};
  const StepProgram& all_;
  std::span<const CostModel> columns_;
  const CommModel& comm_;
  std::vector<Mail> mail_;
};

}  // namespace

StepTime forward_pass(const StepProgram& program, std::span<const CostModel> columns, const CommModel& comm) {
  return ForwardPass(program, columns, comm).run();
}

}  // namespace gpuplan
