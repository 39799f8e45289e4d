#include "planner/instruction_cost.h"

#include <algorithm>
#include <cstddef>

namespace gpuplan {

bool uses_nvme(const RankProgram& p, const Instruction& i) {
  const auto operands = p.operands_of(i);
  return std::any_of(operands.begin(), operands.end(),
                     [&](Operand o) { return p.buffers[operand::id(o)].space == MemorySpace::Nvme; });
}

void CommunicationSpans::clear() {
  spans_.clear();
  first_ = 0;
  compute_begin_ = compute_end_ = 0;
}

/// Seconds of [begin, end] in which no known span runs.
double CommunicationSpans::alone(double begin, double end) const {
  double out = std::max(0.0, end - begin);
  for (std::size_t i = spans_.size(); i > 0 && spans_[i - 1].end > begin; --i)
    out -= std::max(0.0, std::min(end, spans_[i - 1].end) - std::max(begin, spans_[i - 1].begin));
  return out;
}

double CommunicationSpans::add(double begin, double end, double slowdown) {
  if (end <= begin) return 0;
  double later = 0;
  if (begin < compute_end_ && slowdown > 0) {
    const double from = std::max(begin, compute_begin_);
    const double work = alone(from, std::min(end, compute_end_)), beside = alone(from, end);
    later = std::min(work * slowdown, beside * slowdown / (1 + slowdown));
    compute_end_ += later;
  }
  if (first_ == spans_.size() && !spans_.empty() && spans_.back().end <= compute_begin_) {
    spans_.clear();
    first_ = 0;
  }
  std::size_t at = spans_.size();  // before the first span that ends at `begin` or later; nearly always the last
  while (at > first_ && spans_[at - 1].end >= begin) --at;
  std::size_t past = at;
  for (; past < spans_.size() && spans_[past].begin <= end; ++past) {
    begin = std::min(begin, spans_[past].begin);
    end = std::max(end, spans_[past].end);
  }
  const auto to = [&](std::size_t i) { return spans_.begin() + std::ptrdiff_t(i); };
  if (past == at) {
    spans_.insert(to(at), {begin, end});
    return later;
  }
  spans_[at] = {begin, end};
  spans_.erase(to(at + 1), to(past));
  return later;
}

double CommunicationSpans::finish_beside(double start, double work, double slowdown) const {
  double now = start;
  for (std::size_t i = first_; i < spans_.size() && slowdown > 0; ++i) {
    const Span& span = spans_[i];
    const double alone = std::max(0.0, span.begin - now);
    if (work <= alone) break;
    now += alone;
    work -= alone;
    const double slowed = work * (1 + slowdown);
    if (now + slowed <= span.end) return now + slowed;
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
