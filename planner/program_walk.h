// How a step program is read: the order in which its instructions run, repeats turn by turn, and what each of them
// waits for. Memory replay, forward pass, verify, simulator and executor read programs through these two classes and
// differ only in what they do with an instruction.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/narrow.h"
#include "base/work_count.h"
#include "planner/step_program.h"

namespace gpuplan {

/// What a reader does at the borders of a repeat. This one runs every turn.
struct EveryTurn {
  void begin_repeat() {}
  /// Asked at the end of a turn, with `left` turns to come: whether the reader has accounted for them, so that the walk
  /// goes on behind the repeat.
  bool skips(std::uint32_t /*left*/) { return false; }
};

/// One turn of each repeat, which shows what is alive in all of them: verify() requires that a turn leaves the buffers
/// that it found.
struct OneTurn {
  void begin_repeat() {}
  bool skips(std::uint32_t /*left*/) { return true; }
};

/// Walks the instructions of a rank in the order in which they run. Repeats do not nest.
class ProgramCursor {
 public:
  ProgramCursor() = default;
  template <class Repeats>
  ProgramCursor(const RankProgram& program, Repeats& repeats)
      : begin_(program.instructions.data()),
        end_(begin_ + program.instructions.size()),
        at_(begin_) {
    pass_borders(repeats);
  }
  explicit ProgramCursor(const RankProgram& program) {
    EveryTurn every;
    *this = ProgramCursor(program, every);
  }

  bool is_done() const { return at_ == end_; }
  const Instruction& instruction() const { return *at_; }
  std::uint32_t index() const { return narrow<std::uint32_t>(at_ - begin_); }
  /// The micro-batch that the instruction works on, turns of a repeat counted.
  std::uint32_t micro_batch() const { return at_->micro_batch + turn_; }

  /// Whether a turn after the first has just begun, and how many come after it.
  bool is_at_next_turn() const { return turn_ > 0 && at_ == repeat_ + 1; }
  std::uint32_t turns_after() const { return repeat_ && turn_ > 0 ? repeat_->turns - turn_ - 1 : 0; }
  /// For a reader that has accounted for these turns. Requires: not more than turns_after().
  void skip_turns(std::uint32_t count) { turn_ += count; }

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
  template <class Repeats>
  void pass_borders(Repeats& repeats) {
    for (; at_ != end_; ++at_) {
      if (at_->op == OpCode::Repeat) {
        repeat_ = at_;
        repeats.begin_repeat();
      } else if (at_->op == OpCode::EndRepeat) {
        const std::uint32_t left = repeat_->turns - turn_ - 1;
        const bool skips = repeats.skips(left);
        if (skips || left == 0)
          turn_ = 0;
        else
          ++turn_, at_ = repeat_;
      } else {
        return;
      }
    }
  }

  const Instruction *begin_ = nullptr, *end_ = nullptr, *at_ = nullptr;
  const Instruction* repeat_ = nullptr;  // that is under way
  std::uint32_t turn_ = 0;               // of it
};

/// Calls visit(cursor) at every instruction of `program`.
template <class Visit, class Repeats>
void walk(const RankProgram& program, Visit visit, Repeats& repeats) {
  std::int64_t num_visited = 0;
  for (ProgramCursor at(program, repeats); !at.is_done(); at.advance(repeats)) visit(at), ++num_visited;
  count_work(Work::Instructions, num_visited);
}
template <class Visit>
void walk(const RankProgram& program, Visit visit) {
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
  struct Use {
    Moment written, read;  // last; read: since it was written
  };

  void reset(const RankProgram& program) {
    program_ = &program;
    uses_.assign(program.buffers.size(), Use{});
    tails_ = gates_ = {};
  }

  /// What `i` waits for. Not for a Release.
  Moment begin(const Instruction& i) {
    using namespace operand;
    const Moment& gate = gates_[std::size_t(i.stream)];
    Moment start = tails_[std::size_t(i.stream)];
    if (i.op == OpCode::Call) start.join(gate);
    for (const Operand o : program_->operands_of(i)) {
      Use& use = uses_[id(o)];
      if (o & kAllocates) {
        start.join(gate);
        use = {};
      }
      if (o & (kRead | kWrite)) start.join(use.written);
      if (o & kWrite) start.join(use.read);
    }
    return start;
  }

  /// `i`, which has begun after all those before it in the program, ends at `end`.
  void end(const Instruction& i, const Moment& end) {
    using namespace operand;
    tails_[std::size_t(i.stream)] = end;
    for (const Operand o : program_->operands_of(i)) {
      Use& use = uses_[id(o)];
      if (o & kWrite)
        use = {end, {}};
      else if (o & kRead)
        use.read.join(end);
      if (o & kFrees) free(o);
    }
  }

  void release(const Instruction& i) {
    for (const Operand o : program_->operands_of(i))
      if (o & operand::kFrees) free(o);
  }

  /// When the stream has nothing more to do.
  const Moment& tail(StreamId stream) const { return tails_[std::size_t(stream)]; }

  /// For a reader that moves all moments at once.
  std::array<Moment, kNumStreams>& tails() { return tails_; }
  std::array<Moment, kNumStreams>& gates() { return gates_; }
  std::vector<Use>& uses() { return uses_; }

 private:
  void free(Operand o) {
    const Use& use = uses_[operand::id(o)];
    Moment& gate = gates_[std::size_t(program_->buffers[operand::id(o)].home)];
    gate.join(use.written);
    gate.join(use.read);
  }

  const RankProgram* program_ = nullptr;
  std::vector<Use> uses_;  // by buffer
  std::array<Moment, kNumStreams> tails_{}, gates_{};
};

}  // namespace gpuplan
