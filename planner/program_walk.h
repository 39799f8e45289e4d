// How a step program is read: the order in which its instructions run, repeats turn by turn, and what each of them
// waits for. Memory replay, forward pass, verify, simulator and executor read programs through these two classes and
// differ only in what they do with an instruction.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/narrow.h"
#include "base/work_count.h"
#include "planner/step_program.h"

namespace gpuplan {

/// Holds what a reader does at the borders of a repeat. This one runs every turn.
struct EveryTurn {
  void begin_repeat(const Instruction& /*repeat*/) {}
  /// Asked at the end of a turn, with `left` turns to come: how many of them the reader has accounted for, so that the
  /// walk goes on behind them.
  std::uint32_t skips(const Instruction& /*repeat*/, std::uint32_t /*left*/) { return 0; }
};

/// One turn of each repeat of micro-batches, which shows what is alive in all of them: verify() requires that a turn
/// leaves the buffers that it found.
struct OneMicroBatch {
  void begin_repeat(const Instruction& /*repeat*/) {}
  std::uint32_t skips(const Instruction& repeat, std::uint32_t left) { return repeats_layers(repeat) ? 0 : left; }
};

/// A sum over all instructions that run: a turn of a repeat times its turns.
template <class Sum>
struct RepeatedSum {
  Sum total{};
  std::array<Sum, 2> before{};  // a repeat of micro-batches, of layers
  void begin_repeat(const Instruction& repeat) { before[std::size_t(repeats_layers(repeat))] = total; }
  std::uint32_t skips(const Instruction& repeat, std::uint32_t left) {
    total += std::int64_t(left) * (total - before[std::size_t(repeats_layers(repeat))]);
    return left;
  }
};

/// Walks the instructions of a rank in the order in which they run. Repeats of layers nest in repeats of micro-batches.
class ProgramCursor {
 public:
  ProgramCursor() = default;
  template <class Repeats>
  ProgramCursor(const ProgramText& program, Repeats& repeats)
      : program_(&program),
        end_(program.instructions.data() + program.instructions.size()),
        at_(program.instructions.data()) {
    pass_borders(repeats);
  }
  explicit ProgramCursor(const ProgramText& program) {
    EveryTurn every;
    *this = ProgramCursor(program, every);
  }

  bool is_done() const { return at_ == end_; }
  const Instruction& instruction() const { return *at_; }
  std::uint32_t index() const { return narrow<std::uint32_t>(at_ - program_->instructions.data()); }
  /// The micro-batch that the instruction works on, turns of a repeat counted.
  std::uint32_t micro_batch() const { return at_->micro_batch + micro_batches_.turn; }
  /// The same for its unit, its frame and its operands, where layers are repeated.
  std::uint16_t unit() const { return moved(at_->unit); }
  std::uint16_t frame() const { return moved(at_->frame); }
  std::span<const Operand> operands() const {
    const std::span<const Operand> first = program_->operands_of(*at_);
    if (layers_.turn == 0) return first;
    const std::uint32_t* steps = program_->operand_steps.data() + at_->first_operand;
    const Operand* operands = first.data();
    Operand* const moved = moved_.data();
    for (std::size_t k = 0; k < first.size(); ++k) moved[k] = operands[k] + layers_.turn * steps[k];
    return {moved, first.size()};
  }

  /// Says whether a turn of micro-batches after the first has just begun; turns_after() counts those behind it.
  bool is_at_next_turn() const { return micro_batches_.turn > 0 && at_ == micro_batches_.repeat + 1; }
  std::uint32_t turns_after() const {
    return micro_batches_.turn > 0 ? micro_batches_.repeat->turns - micro_batches_.turn - 1 : 0;
  }
  /// For a reader that has accounted for these turns. Requires: not more than turns_after().
  void skip_turns(std::uint32_t count) { micro_batches_.turn += count; }
  /// Turns of the repeat of layers that is under way, before this one.
  std::uint32_t layer_turn() const { return layers_.turn; }

  template <class Repeats>
  void advance(Repeats& repeats) {
    ++at_;
    if (at_ != end_ && at_->op >= OpCode::Repeat) pass_borders(repeats);  // nearly never
  }
  void advance() {
    EveryTurn every;
    advance(every);
  }

 private:
  struct Level {
    const Instruction* repeat = nullptr;  // that is under way
    std::uint32_t turn = 0;               // of it
  };

  std::uint16_t moved(std::uint16_t first) const {
    if (layers_.turn == 0) return first;
    return narrow<std::uint16_t>(first + std::int64_t(layers_.turn) * layers_.repeat->unit_step);
  }

  template <class Repeats>
  void pass_borders(Repeats& repeats) {
    for (; at_ != end_; ++at_) {
      if (at_->op == OpCode::Repeat) {
        (repeats_layers(*at_) ? layers_ : micro_batches_) = {at_, 0};
        repeats.begin_repeat(*at_);
      } else if (at_->op == OpCode::EndRepeat) {
        Level& level = layers_.repeat ? layers_ : micro_batches_;
        const std::uint32_t left = level.repeat->turns - level.turn - 1;
        const std::uint32_t skipped = repeats.skips(*level.repeat, left);
        if (skipped >= left)
          level = {};
        else
          level.turn += skipped + 1, at_ = level.repeat;
      } else {
        return;
      }
    }
  }

  const ProgramText* program_ = nullptr;
  const Instruction *end_ = nullptr, *at_ = nullptr;
  Level micro_batches_, layers_;
  mutable std::array<Operand, kMostRepeatedOperands> moved_{};  // operands of an instruction, in a turn after the first
};

/// Calls visit(cursor) at every instruction of `program`.
template <class Visit, class Repeats>
void walk(const ProgramText& program, Visit visit, Repeats& repeats) {
  std::int64_t num_visited = 0;
  for (ProgramCursor at(program, repeats); !at.is_done(); at.advance(repeats)) visit(at), ++num_visited;
  count_work(Work::Instructions, num_visited);
}
template <class Visit>
void walk(const ProgramText& program, Visit visit) {
  EveryTurn every;
  walk(program, visit, every);
}

/// The rule of waiting. An instruction starts when
///   - the one before it on its stream has ended,
///   - what it reads has been written; what it writes has been written and read by those before it,
///   - if it allocates, the users of all that its pool freed before have ended. This gate is FSDP's rate limiter.
/// A pool belongs to the stream on which its buffers are first written. Calls allocate their locals.
/// A Release is no work: it frees, so that later allocations of the pool wait for the users of what it names.
///
/// `Moment` says when instructions have ended: seconds, or the latest tasks of each stream. `a.join(b)` makes a the
/// moment when both have come; Moment{} has come from the start.
template <class Moment>
class WaitingRule {
 public:
  struct Joined {
    void operator()(Moment& a, const Moment& b) const { a.join(b); }
  };
  struct Use {
    Moment written, read;  // last; read: since it was written
  };

  void reset(const RankProgram& program) {
    program_ = &program;
    uses_.assign(program.buffers.size(), Use{});
    tails_ = gates_ = {};
  }

  /// Finds what `i` waits for. Not for a Release. `operands` are those of this turn (ProgramCursor). `join(a, b)` joins
  /// b to a; in end() and release() it joins what is freed to the gates.
  template <class Join>
  Moment begin(const Instruction& i, std::span<const Operand> operands, Join join) {
    using namespace operand;
    const Moment& gate = gates_[std::size_t(i.stream)];
    Moment start = tails_[std::size_t(i.stream)];
    Use* const uses = uses_.data();
    if (runs_block(i)) join(start, gate);
    for (const Operand o : operands) {
      Use& use = uses[id(o)];
      if (o & kAllocates) {
        join(start, gate);
        use = {};
      }
      if (o & (kRead | kWrite)) join(start, use.written);
      if (o & kWrite) join(start, use.read);
    }
    return start;
  }
  Moment begin(const Instruction& i, std::span<const Operand> operands) { return begin(i, operands, Joined{}); }

  /// `i`, which has begun after all those before it in the program, ends at `end`.
  template <class Join = Joined>
  void end(const Instruction& i, std::span<const Operand> operands, const Moment& end, Join join = {}) {
    using namespace operand;
    tails_[std::size_t(i.stream)] = end;
    for (const Operand o : operands) {
      use_until(o, end);
      if (o & kFrees) free(o, join);
    }
  }
  /// An operand of an instruction that ends then.
  void use_until(Operand o, const Moment& end) {
    Use& use = uses_.data()[operand::id(o)];
    if (o & operand::kWrite)
      use = {end, {}};
    else if (o & operand::kRead)
      use.read.join(end);
  }

  template <class Join = Joined>
  void release(std::span<const Operand> operands, Join join = {}) {
    for (const Operand o : operands)
      if (o & operand::kFrees) free(o, join);
  }

  /// Says when the stream has nothing more to do.
  const Moment& tail(StreamId stream) const { return tails_[std::size_t(stream)]; }

  /// For a reader that moves all moments at once.
  std::array<Moment, kNumStreams>& tails() { return tails_; }
  std::array<Moment, kNumStreams>& gates() { return gates_; }
  std::vector<Use>& uses() { return uses_; }
  const std::vector<Use>& uses() const { return uses_; }

 private:
  template <class Join>
  void free(Operand o, Join join) {
    const Use& use = uses_[operand::id(o)];
    Moment& gate = gates_[std::size_t(program_->buffers[operand::id(o)].home)];
    join(gate, use.written);
    join(gate, use.read);
  }

  const RankProgram* program_ = nullptr;
  std::vector<Use> uses_;  // by buffer
  std::array<Moment, kNumStreams> tails_{}, gates_{};
};

}  // namespace gpuplan
