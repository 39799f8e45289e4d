#include "planner/step_time.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/work_count.h"
#include "planner/instruction_cost.h"
#include "planner/program_walk.h"
#include "planner/timed_program.h"
#include "planner/turn_notes.h"

namespace gpuplan {
namespace {

/// When an instruction ends, in seconds of the step.
struct Instant {
  double seconds{};
  void join(Instant other) { seconds = seconds < other.seconds ? other.seconds : seconds; }  // in a register
};

/// Holds what instructions of one kind cost on one machine, in seconds.
struct Price {
  double work{};  // of a stream, at full speed
  double launching{}, host_tail{}, flops{};
  double hand_over{};  // of a collective whose stream was idle
  double message{};    // of a Recv: how long it is under way
};

/// Clocks of one class while it runs.
struct Clock {
  ProgramCursor at;
  WaitingRule<Instant> waits;
  std::array<double, kNumStreams> busy{};
  // Gathers and reductions that share links, by CommModel::queue_of: one after the other they take as long as side by
  // side.
  std::array<double, kNumAxes> links_free{};
  double host{}, end{}, flops{}, in_line{};  // in_line: communication on the stream that computes
  std::array<std::size_t, 2> received{};
  TurnNotes notes;                   // of a repeat of layers
  CommunicationSpans communication;  // known so far, in program order
  double layers_began{};             // what had ended when the repeat began
  const TimedProgram* program = nullptr;
  std::vector<Price> prices;  // [kind of instruction]
  double overlap_slowdown{};

  // The turns of a repeat soon all take the same time; then the rest of them is one shift.
  static constexpr std::size_t kNumClocks = 3 * std::size_t(kNumStreams) + kNumAxes + 4;
  using AllClocks = std::array<double, kNumClocks>;
  AllClocks turn_start{}, turn_delta{};
  double turn_began{};
  std::uint32_t turns_done{};
  /// An operand of the latest turn of layers, and when its instruction ended.
  struct TurnUse {
    Operand operand{};
    std::uint32_t step{};
    double finish{}, finish_step{};
  };
  std::vector<TurnUse> used;
  bool has_neighbours{};  // stages of a pipeline exchange messages: their turns are skipped together
  bool skips_alike_layers{};

  void reset(const RankProgram& of_rank, const TimedProgram& timed, bool is_stage, Layers layers) {
    waits.reset(of_rank);
    program = &timed;
    notes.end_repeat();
    busy = {};
    links_free = {};
    host = end = flops = in_line = 0;
    received = {};
    communication.clear(&notes);
    has_neighbours = is_stage;
    skips_alike_layers = layers == Layers::Folded;
    at = ProgramCursor(timed.text, *this);
  }
  const Price& price() const {
    return prices.data()[program->kinds.data()[&at.instruction() - program->text.instructions.data()]];
  }
  /// Gives the clock of the end first, then those of the streams that the program uses.
  template <class Use>
  void each_clock(Use use) {
    use(end), use(host), use(flops);
    for (const StreamId stream : program->streams) {
      const auto s = std::size_t(stream);
      use(waits.tails()[s].seconds), use(waits.gates()[s].seconds), use(busy[s]);
    }
    for (double& t : links_free) use(t);
    use(in_line);
  }
  AllClocks all_clocks() {
    AllClocks out{};
    double* next = out.data();
    each_clock([&](double t) { *next++ = t; });
    return out;
  }

  void begin_repeat(const Instruction& repeat) {
    if (repeats_layers(repeat)) {
      if (skips_alike_layers) notes.begin_repeat();
      communication.begin_turn();
      layers_began = end;
      return;
    }
    turns_done = 0;
    turn_start = all_clocks();
    turn_began = end;
  }
  std::uint32_t skips(const Instruction& repeat, std::uint32_t left) {
    if (repeats_layers(repeat)) return skips_layers(repeat, left);
    if (left == 0 || has_neighbours) return 0;
    const AllClocks delta = last_turn();
    if (!repeats(delta)) {
      keep_turn(delta);
      return 0;
    }
    shift(delta, left);
    return left;
  }
  /// Gives every clock, spans of communication and all.
  template <class Use>
  void each_noted_clock(Use use) {
    each_clock(use);
    communication.each_clock(use);
  }
  std::uint32_t skips_layers(const Instruction& repeat, std::uint32_t left) {
    if (!notes.is_in_repeat()) return 0;
    notes.note_clocks([&](auto note) { each_noted_clock(note); });
    std::uint32_t turns = notes.num_alike(left, end);
    if (turns > 0) turns = num_not_waiting(repeat, turns);
    if (turns > 0) {
      use_in_turns(repeat, turns);
      std::size_t k = 0;
      each_noted_clock([&](double& t) { t += double(turns) * notes.clock_step(k++); });
      communication.skip_turns();
      notes.begin_repeat();
    } else {
      notes.next_turn();
    }
    communication.begin_turn();
    if (turns >= left || !notes.is_worthwhile()) notes.end_repeat();
    return turns;
  }
  /// The touches of a repeat in one of the lists of its program.
  std::span<const TimedProgram::Touch> of_repeat(const Instruction& repeat,
                                                 const std::vector<TimedProgram::Touch>& list,
                                                 std::size_t TimedProgram::Turns::*ends) const {
    const std::size_t turns = program->kinds[std::size_t(&repeat - program->text.instructions.data())];
    const std::size_t first = program->turns[turns - 1].*ends;
    return {list.data() + first, program->turns[turns].*ends - first};
  }
  /// So many of `turns` find operands that were used before the repeat as much in time as the latest did.
  std::uint32_t num_not_waiting(const Instruction& repeat, std::uint32_t turns) const {
    const auto* const uses = waits.uses().data();
    for (const TimedProgram::Touch& touch : of_repeat(repeat, program->awaited, &TimedProgram::Turns::awaited)) {
      const double until = notes.last_wait(touch.instruction), by = notes.wait_step(touch.instruction);
      if (until >= layers_began) continue;  // nothing of before the repeat is later
      std::uint32_t buffer = operand::id(touch.operand + at.layer_turn() * touch.step);
      for (std::uint32_t turn = 1; turn <= turns; ++turn) {
        buffer += touch.step;
        const double before = std::max(uses[buffer].written.seconds, uses[buffer].read.seconds);
        if (before > (until + turn * by) * (1 + 1e-12)) turns = turn - 1;
      }
    }
    return turns;
  }
  /// Uses of the operands in turns that are not run. What a turn soon after frees is of no use to what comes behind.
  void use_in_turns(const Instruction& repeat, std::uint32_t turns) {
    const std::uint32_t first_of_all = turns > kMostTurnsOfUse ? turns - kMostTurnsOfUse : 0;
    use_in(1, first_of_all, of_repeat(repeat, program->lasting, &TimedProgram::Turns::lasting));
    use_in(first_of_all + 1, turns, of_repeat(repeat, program->touches, &TimedProgram::Turns::touches));
  }
  void use_in(std::uint32_t first, std::uint32_t last, std::span<const TimedProgram::Touch> touches) {
    used.clear();
    for (const TimedProgram::Touch& touch : touches)
      used.push_back({touch.operand + at.layer_turn() * touch.step, touch.step, notes.last_finish(touch.work),
                      notes.finish_step(touch.work)});
    for (std::uint32_t turn = first; turn <= last; ++turn)
      for (const TurnUse& use : used) {
        const Operand o = use.operand + turn * use.step;
        if (o & operand::kAllocates) waits.uses().data()[operand::id(o)] = {};
        waits.use_until(o, {use.finish + turn * use.finish_step});
      }
  }
  /// Says how far the turn that has ended moved the clocks.
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
    const double by = turns * delta.front();
    for (auto& use : waits.uses())
      for (Instant* t : {&use.written, &use.read})
        if (t->seconds >= turn_began) t->seconds += by;
    communication.shift(turn_began, by);
    const double* moved = delta.data();
    each_clock([&](double& t) { t += turns * *moved++; });
  }
};

/// In a repeat of layers: notes how much later what is freed could have been of use.
struct NotedJoin {
  TurnNotes* notes;
  void operator()(Instant& a, const Instant& b) const {
    notes->compare(a.seconds - b.seconds);
    a.join(b);
  }
};

/// Says when what `i` waits for has ended. Not inlined: beside the calls of its user, which save no floating-point
/// register, the moment would be kept in memory while the operands are looked at.
[[gnu::noinline]] double ready_at(WaitingRule<Instant>& waits, const Instruction& i,
                                  std::span<const Operand> operands) {
  return waits.begin(i, operands).seconds;
}

struct Mail {
  std::array<std::vector<double>, 2> times;
};  // [direction]: when a message to this class is there

std::vector<Clock>& clocks() {
  static thread_local std::vector<Clock> all;
  return all;
}

/// To 38 bits: turns that were skipped add up in another order than turns that were run, and plans that take as long as
/// each other have to stay so.
Seconds rounded(Seconds sum) {
  int exponent = 0;
  const double fraction = std::frexp(sum.value, &exponent);
  return {std::ldexp(std::nearbyint(std::ldexp(fraction, 38)), exponent - 38)};
}

class ForwardPass {
 public:
  ForwardPass(const StepProgram& all, const TimedStep& timed, std::span<const CostModel> columns, const CommModel& comm,
              Layers layers)
      : all_(all),
        timed_(timed),
        columns_(columns),
        comm_(comm),
        layers_(layers) {
    auto& c = clocks();
    c.resize(std::max(c.size(), all_.classes.size()));
    for (std::size_t k = 0; k < all_.classes.size(); ++k) {
      set_prices(c[k].prices, all_.classes[k]);
      c[k].overlap_slowdown = columns_[all_.classes[k].costs].overlap_slowdown;
    }
  }

  /// Lists all that decides how long a step of the resolved program takes.
  void list_inputs(std::vector<double>& out) const {
    out.clear();
    for (const AxisRow& row : kAxes) out.push_back(double(comm_.queue_of(row.axis)));
    for (std::size_t k = 0; k < all_.classes.size(); ++k) {
      const Clock& c = clocks()[k];
      out.push_back(double(timed_.programs[all_.classes[k].program].micro_batches));
      out.push_back(c.overlap_slowdown);
      for (const Price& p : c.prices)
        out.insert(out.end(), {p.work, p.launching, p.host_tail, p.flops, p.hand_over, p.message});
    }
  }

  StepTime time() {
    const StepTime folded = run();
    // where a turn that was not run had a say in one that was, all turns of layers are run
    return has_missed_spans_ ? ForwardPass(all_, timed_, columns_, comm_, Layers::WrittenOut).run() : folded;
  }

 private:
  StepTime run() {
    auto& c = clocks();
    for (std::size_t k = 0; k < all_.classes.size(); ++k) {
      const std::size_t program = all_.classes[k].program;
      c[k].reset(all_.programs[program], timed_.programs[program], all_.mesh.num_stages() > 1 || all_.has_one_host,
                 layers_);
    }
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
      has_missed_spans_ |= c[k].communication.has_missed_spans();
      const auto busy = [&](StreamId s) { return c[k].busy[std::size_t(s)]; };
      out.step.value = std::max(out.step.value, c[k].end);
      out.compute.value = std::max(out.compute.value, busy(StreamId::Compute) - c[k].in_line);
      out.communication.value =
          std::max(out.communication.value, c[k].in_line + busy(StreamId::Gather) + busy(StreamId::Reduce) +
                                                busy(StreamId::Send) + busy(StreamId::Recv) + busy(StreamId::CopyIn) +
                                                busy(StreamId::CopyOut));
      out.host.value = std::max(out.host.value, c[k].host);
      flops += c[k].flops * double(all_.classes[k].num_ranks);
      num_ranks += all_.classes[k].num_ranks;
    }
    for (Seconds* sum : {&out.step, &out.compute, &out.communication, &out.host}) *sum = rounded(*sum);
    count_work(Work::Instructions, num_executed_);
    out.flops = flops / double(std::max<std::int64_t>(num_ranks, 1));
    out.exposed = Seconds{std::max(0.0, out.step.value - out.compute.value)};
    return out;
  }
  /// The stage that a message goes to. The last one sends on to the first where stages have several chunks.
  std::size_t neighbour(std::size_t k, Direction direction) const {
    const std::size_t stages = all_.classes.size();
    return (k + (direction == Direction::Forward ? 1 : stages - 1)) % stages;
  }

  static bool moves_data(OpCode op) {
    return takes_multiprocessors(op) || op == OpCode::CopyIn || op == OpCode::CopyOut;
  }

  /// Seconds that a transfer takes, or none where `i` moves no data.
  double transfer(const RankProgram& p, const Instruction& i) const {
    switch (i.op) {
      case OpCode::AllGather:
      case OpCode::ReduceScatter: return comm_.gather_time(i.axis, i.work, i.messages).value;
      case OpCode::AllReduce: return comm_.all_reduce_time(i.axis, i.work).value;
      case OpCode::AllToAll: return comm_.all_to_all_time(i.axis, i.work).value;
      case OpCode::Send: return comm_.send_time(i.axis, i.work).value;
      case OpCode::CopyIn:
      case OpCode::CopyOut: return (i.work / (uses_nvme(p, i) ? comm_.nvme : comm_.host_link)).value;
      default: return 0;
    }
  }

  void set_prices(std::vector<Price>& prices, const RankClass& rank_class) const {
    const RankProgram& p = all_.programs[rank_class.program];
    const CostModel& device = columns_[rank_class.costs];
    prices.clear();
    for (const TimedProgram::Example& example : timed_.programs[rank_class.program].examples) {
      const Instruction& i = p.instructions[example.instruction];
      const InstructionCost cost = cost_of(all_, p, i, rank_class.costs, device, comm_);
      const double moved = transfer(p, i);
      prices.push_back({.work = cost.work.value + moved * exposed_share(all_, i, rank_class.costs, Seconds{moved},
                                                                        device.overlap_slowdown),
                        .launching = cost.launching.value,
                        .host_tail = cost.host_tail.value,
                        .flops = cost.flops,
                        .hand_over = is_collective(i.op) ? comm_.hand_over(i.axis).value : 0,
                        .message = i.op == OpCode::Recv ? comm_.send_time(i.axis, i.work).value : 0});
    }
  }

  bool advance(std::size_t k, Clock& c) {
    if (k == 0 && std::exchange(turn_is_over_, false)) skip_turns_of_stages();
    bool moved = false;
    while (!c.at.is_done()) {
      const Instruction& i = c.at.instruction();
      const std::size_t direction = std::size_t(i.direction);
      if (i.op == OpCode::Recv && mail_[k].times[direction].size() <= c.received[direction]) return moved;
      moved = true;
      ++num_executed_;
      if (i.op == OpCode::Release)
        release(c);
      else if (c.notes.has_comparisons())
        execute<Noted::Yes>(k, c, i);
      else
        execute<Noted::No>(k, c, i);
      const double host = c.host;
      c.at.advance(c);
      if (c.host != host) host_ = c.host;  // turns were skipped
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

  static void release(Clock& c) {
    const std::span<const Operand> operands = c.at.operands();
    if (!c.notes.has_comparisons()) return c.waits.release(operands);
    double until = std::numeric_limits<double>::max();
    c.waits.release(operands, [&](Instant& a, const Instant& b) {
      NotedJoin{&c.notes}(a, b);
      until = std::min(until, a.seconds);
    });
    c.notes.wait(until);
  }

  /// Says when `i` may begin, as far as operands and streams go.
  static double noted_ready_at(Clock& c, const Instruction& i, std::span<const Operand> operands) {
    double awaited[3 * kMostRepeatedOperands + 2];  // all the array is not needed, nor set to anything
    std::size_t count = 0;
    awaited[count++] = c.waits.tail(i.stream).seconds;
    const Instant start = c.waits.begin(i, operands, [&](Instant& a, const Instant& b) {
      if (b.seconds > 0) awaited[count++] = b.seconds;  // else nothing has used it yet
      a.join(b);
    });
    for (std::size_t k = 0; k < count; ++k) c.notes.compare(start.seconds - awaited[k]);
    c.notes.wait(start.seconds);
    return start.seconds;
  }

  enum class Noted : std::uint8_t { No, Yes };
  template <Noted kNoted>
  void execute(std::size_t k, Clock& c, const Instruction& i) {
    const auto compare = [&](double slack) {
      if constexpr (kNoted == Noted::Yes) c.notes.compare(slack);
    };
    const auto later = [&](double a, double b) {
      compare(a - b);
      return std::max(a, b);
    };
    if (all_.has_one_host) c.host = host_;
    const Price& price = c.price();
    const std::span<const Operand> operands = c.at.operands();
    const double free = c.waits.tail(i.stream).seconds, launched = c.host;
    const double ready = kNoted == Noted::Yes ? noted_ready_at(c, i, operands) : ready_at(c.waits, i, operands);
    double start = later(ready, launched);
    if (is_collective(i.op)) {  // a stream that was idle hands over while the links may still be busy
      compare(start - free);
      const double hand_over = start > free ? price.hand_over : 0;
      start = later(start, c.links_free[std::size_t(comm_.queue_of(i.axis))] - hand_over) + hand_over;
      c.busy[std::size_t(i.stream)] += hand_over;
      if (i.stream == StreamId::Compute) c.in_line += hand_over;
    }
    double work = price.work;
    if (i.stream == StreamId::Compute && !moves_data(i.op))
      work = c.communication.finish(start, work, c.overlap_slowdown) - start;
    double finish = later(start + work, launched + price.host_tail);
    c.host += price.launching;
    host_ = c.host;
    c.flops += price.flops;
    const std::size_t direction = std::size_t(i.direction);
    if (i.op == OpCode::Recv) finish = std::max(start, mail_[k].times[direction][c.received[direction]++]);
    if (takes_multiprocessors(i.op)) {
      // A collective that waits for its launches moves nothing meanwhile.
      const double ended = i.op == OpCode::Recv ? finish : start + work;
      const double began = i.op == OpCode::Recv ? finish - price.message : start;
      c.busy[std::size_t(StreamId::Compute)] += c.communication.add(began, ended, c.overlap_slowdown);
      if (i.stream == StreamId::Compute) c.communication.go_on(began, ended);
      double& computed = c.waits.tails()[std::size_t(StreamId::Compute)].seconds;
      computed = later(computed, c.communication.compute_end());
      c.end = later(c.end, c.communication.compute_end());
    }
    if (i.op == OpCode::Send) mail_[neighbour(k, i.direction)].times[direction].push_back(finish);
    if (is_collective(i.op)) c.links_free[std::size_t(comm_.queue_of(i.axis))] = finish;
    if constexpr (kNoted == Noted::Yes)
      c.waits.end(i, operands, {finish}, NotedJoin{&c.notes});
    else
      c.waits.end(i, operands, {finish});
    if (c.notes.is_in_repeat()) c.notes.finish(finish);
    if (i.stream == StreamId::Compute && is_collective(i.op)) c.in_line += work;
    c.busy[std::size_t(i.stream)] += i.op == OpCode::Recv ? 0 : work;
    c.end = later(c.end, finish);
  }

  /// Collectives, sends and receives are kernels; copies to and from the host have engines of their own.
  static bool takes_multiprocessors(OpCode op) { return op >= OpCode::AllGather && op <= OpCode::Recv; }

  std::int64_t num_executed_ = 0;
  const StepProgram& all_;
  const TimedStep& timed_;
  std::span<const CostModel> columns_;
  const CommModel& comm_;
  Layers layers_;
  bool has_missed_spans_{};
  std::vector<Mail> mail_;
  double host_{};                       // of the thread that launches for all classes, where there is one
  double turn_host_{};                  // when the first stage last began a turn
  bool turn_is_over_{};                 // of the first stage
  std::vector<std::uint32_t> turn_at_;  // then: the instructions that were next
};

}  // namespace

StepTime forward_pass(const StepProgram& program, const TimedStep& timed, std::span<const CostModel> columns,
                      const CommModel& comm) {
  return ForwardPass(program, timed, columns, comm, Layers::Folded).time();
}

StepTime known_forward_pass(const StepProgram& program, TimedStep& timed, std::span<const CostModel> columns,
                            const CommModel& comm) {
  ForwardPass pass(program, timed, columns, comm, Layers::Folded);
  pass.list_inputs(timed.inputs);
  const auto known = std::ranges::find(timed.passes, timed.inputs, &TimedStep::Pass::inputs);
  if (known != timed.passes.end()) return known->time;
  return timed.passes.emplace_back(TimedStep::Pass{timed.inputs, pass.time()}).time;
}

StepTime forward_pass(const StepProgram& program, std::span<const CostModel> columns, const CommModel& comm) {
  static thread_local TimedStep timed;
  resolve(timed, program);
  return forward_pass(program, timed, columns, comm);
}

}  // namespace gpuplan
