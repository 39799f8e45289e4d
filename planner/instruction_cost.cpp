#include "planner/instruction_cost.h"

#include <algorithm>
#include <cstddef>

namespace gpuplan {

bool uses_nvme(const RankProgram& p, const Instruction& i) {
  const auto operands = p.operands_of(i);
  return std::any_of(operands.begin(), operands.end(),
                     [&](Operand o) { return p.buffers[operand::id(o)].space == MemorySpace::Nvme; });
}

void CommunicationSpans::clear(TurnNotes* notes) {
  notes_ = notes;
  forget_spans();
  has_missed_ = false;
  compute_begin_ = compute_end_ = 0;
}

/// Seconds of [begin, end] in which no known span runs.
double CommunicationSpans::alone(double begin, double end) {
  double out = later(0.0, end - begin);
  std::size_t i = spans_.size();
  for (; i > 0 && is_before(begin, spans_[i - 1].end); --i)
    out -= later(0.0, earlier(end, spans_[i - 1].end) - later(begin, spans_[i - 1].begin));
  oldest_read_ = std::min(oldest_read_, i > 0 ? i - 1 : 0);
  if (i == 0 && skips_before_) has_missed_ |= spans_.empty() || begin < spans_.front().begin;
  return out;
}

void CommunicationSpans::forget_spans() {
  spans_.clear();
  first_ = oldest_read_ = 0;
  skips_before_ = false;
}

void CommunicationSpans::skip_turns() {
  const std::size_t num_old = oldest_clock();
  skips_before_ |= num_old > 0;
  spans_.erase(spans_.begin(), spans_.begin() + std::ptrdiff_t(num_old));
  first_ -= num_old, oldest_read_ -= num_old;
}

double CommunicationSpans::add(double begin, double end, double slowdown) {
  if (is_before(end, begin, true)) return 0;
  double by = 0;
  if (slowdown > 0 && is_before(begin, compute_end_)) {
    const double from = later(begin, compute_begin_);
    const double work = alone(from, earlier(end, compute_end_)), beside = alone(from, end);
    by = earlier(work * slowdown, beside * slowdown / (1 + slowdown));
    compute_end_ += by;
  }
  if (first_ == spans_.size() && !spans_.empty() && is_before(spans_.back().end, compute_begin_, true)) forget_spans();
  std::size_t at = spans_.size();  // before the first span that ends at `begin` or later; nearly always the last
  while (at > first_ && is_before(begin, spans_[at - 1].end, true)) --at;
  std::size_t past = at;
  for (; past < spans_.size() && is_before(spans_[past].begin, end, true); ++past) {
    begin = earlier(begin, spans_[past].begin);
    end = later(end, spans_[past].end);
  }
  const auto to = [&](std::size_t i) { return spans_.begin() + std::ptrdiff_t(i); };
  if (past == at) {
    spans_.insert(to(at), {begin, end});
    return by;
  }
  spans_[at] = {begin, end};
  spans_.erase(to(at + 1), to(past));
  return by;
}

double CommunicationSpans::finish_beside(double start, double work, double slowdown) const {
  double now = start;
  for (std::size_t i = first_; i < spans_.size() && slowdown > 0; ++i) {
    const Span& span = spans_[i];
    const double alone = later(0.0, span.begin - now);
    if (is_before(work, alone, true)) break;
    now += alone;
    work -= alone;
    const double slowed = work * (1 + slowdown);
    if (is_before(now + slowed, span.end, true)) return now + slowed;
    work -= (span.end - now) / (1 + slowdown);
    now = span.end;
  }
  return now + work;
}

void CommunicationSpans::shift(double from, double by) {
  for (std::size_t i = first_; i < spans_.size(); ++i)
    if (spans_[i].end >= from) spans_[i].begin += by, spans_[i].end += by;
  if (compute_end_ >= from) compute_begin_ += by, compute_end_ += by;
}

}  // namespace gpuplan
