// What single instructions of a step program cost, apart from collectives: read by the forward pass and by the
// simulator.
#pragma once

#include <algorithm>
#include <vector>

#include "planner/comm_model.h"
#include "planner/cost.h"
#include "planner/step_program.h"
#include "planner/turn_notes.h"

namespace gpuplan {

/// Says whether an operand lies on NVMe.
bool uses_nvme(const RankProgram& program, const Instruction& instruction);

struct InstructionCost {
  Seconds work;       // of the device (or, on StreamId::Host, of the host) at full speed; nothing for what moves data
  Seconds launching;  // on the host, kernel by kernel
  Seconds host_tail;  // from when the host begins to launch to the end, on a device that waits for nothing else
  double flops{};
};
/// Calls by the block costs of `column` and what sums of gradients move, casts and optimizer steps by memory traffic.
inline InstructionCost cost_of(const StepProgram& all, const RankProgram& p, const Instruction& i, std::size_t column,
                               const CostModel& device, const CommModel& comm) {
  if (i.op == OpCode::Call) {
    const BlockCost& block = all.costs[column][i.block];
    const Seconds hooks = double(i.hook_kernels) * device.python_dispatch;  // before the call
    const Seconds sums = i.work / device.memory_rate();
    return {block.device + sums, hooks + block.launching, hooks + block.host_tail + sums, block.flops};
  }
  if (i.op == OpCode::LoadBatch || i.op == OpCode::Release) return {};
  InstructionCost out;
  out.launching = out.host_tail = double(1 + i.hook_kernels) * device.python_dispatch;
  if (i.op == OpCode::Cast || i.op == OpCode::GradientNorm) out.work = i.work / device.memory_rate();
  if (i.op == OpCode::OptimizerStep) {
    out.flops = p.step_flops[i.frame];
    out.work = i.work / (i.stream != StreamId::Host ? device.optimizer_rate()
                         : uses_nvme(p, i)          ? std::min(comm.nvme, comm.cpu_optimizer)
                                                    : comm.cpu_optimizer);
    if (out.flops > 0) out.work += Seconds{out.flops / device.gemm.value};
  }
  return out;
}

/// Share of an exchange that compute waits for. Where it goes with its products (stage_builder.h), ranks send a piece
/// while they multiply the one before, and each begins with its own: of t pieces of a product of G seconds t - 1 hide
/// as much of the exchange's C.  exposed = max(0, C - G (t - 1) / t)
/// An exchange in a trained column's backward runs beside a product of the same size as the one that makes or reads it,
/// which takes as much longer as any that a collective runs beside.  exposed = max(0, C - G) + sigma min(C, G)
inline double exposed_share(const StepProgram& all, const Instruction& i, std::size_t column, Seconds alone,
                            double slowdown) {
  if (!runs_block(i) || i.op == OpCode::Call || !i.is_of_own_shard || alone.value <= 0) return 1;
  if (all.blocks[i.block].goes_with_columns) {
    const double hidden = std::min(1.0, all.costs[column][i.block].device.value / alone.value);
    return 1 - hidden + slowdown * hidden;
  }
  const auto ways = double(all.mesh.ways(i.axis));
  return std::max(0.0, 1 - all.costs[column][i.block].device.value * (ways - 1) / ways / alone.value);
}

/// When communication runs on a rank, and how much longer compute takes beside it: a running collective takes SMs and
/// memory bandwidth, so that compute goes 1 + sigma slower while it lasts. The simulator applies the same rule event by
/// event.
///
/// Union of the times in which anything is communicated. Times in seconds.
///
/// Communication that stands behind a call in the program may run beside it, as gathers do that wait for no compute.
/// Then the call has been placed too early; `add` says how much longer the compute up to now takes.
class CommunicationSpans {
 public:
  /// Comparisons are noted in `notes`.
  void clear(TurnNotes* notes = nullptr);
  /// Says how much later the last compute ends than it did: by the part of the span that runs beside compute which goes
  /// on without a gap up to now, and beside no other communication.
  double add(double begin, double end, double slowdown);
  double compute_end() const { return compute_end_; }
  /// Communication on the stream that computes, which `add` has: where it stands behind compute without a gap, what
  /// slows that compute moves all that is behind it.
  void go_on(double begin, double end) {
    if (!is_before(compute_end_, begin)) compute_end_ = later(compute_end_, end);
  }
  /// Says when `work` seconds of compute end that begin at `start`. Starts never decrease: what ended before is
  /// forgotten.
  double finish(double start, double work, double slowdown) {
    while (first_ < spans_.size() && is_before(spans_[first_].end, start, true)) ++first_;
    if (is_before(compute_end_, start)) compute_begin_ = start;
    compute_end_ = first_ == spans_.size() ? start + work : finish_beside(start, work, slowdown);
    return compute_end_;
  }
  /// Moves what ended at `from` or later.
  void shift(double from, double by);

  /// A turn of a repeat begins: of spans that are over, those that it looks at are its clocks too, and the latest one.
  /// A message may begin before the latest compute does.
  void begin_turn() { oldest_read_ = spans_.size(); }
  /// Gives every clock of the turn to a reader that moves each by an amount of its own.
  template <class Use>
  void each_clock(Use use) {
    for (std::size_t i = oldest_clock(); i < spans_.size(); ++i) use(spans_[i].begin), use(spans_[i].end);
    use(compute_begin_), use(compute_end_);
  }
  /// Turns like this one were not run: what was over before it has others behind it that are not known.
  void skip_turns();
  /// Says whether a message began so early that what was skipped may have run beside it.
  bool has_missed_spans() const { return has_missed_; }

 private:
  /// Says that a < b, or a <= b.
  bool is_before(double a, double b, bool or_equal = false) const {
    if (notes_) notes_->compare(a - b);
    return or_equal ? a <= b : a < b;
  }
  double later(double a, double b) const { return is_before(a, b) ? b : a; }
  double earlier(double a, double b) const { return is_before(b, a) ? b : a; }
  double alone(double begin, double end);
  std::size_t oldest_clock() const {
    return std::min({first_, oldest_read_, spans_.empty() ? std::size_t{0} : spans_.size() - 1});
  }
  void forget_spans();
  double finish_beside(double start, double work, double slowdown) const;

  struct Span {
    double begin{}, end{};
  };
  std::vector<Span> spans_;  // disjoint, in order; those before first_ are over
  std::size_t first_ = 0;
  std::size_t oldest_read_ = 0;             // of a turn
  bool skips_before_ = false;               // others ran before the first one here, which are not known
  bool has_missed_ = false;                 // and one of them was looked for
  double compute_begin_{}, compute_end_{};  // of the last compute without a gap
  TurnNotes* notes_ = nullptr;
};

}  // namespace gpuplan
