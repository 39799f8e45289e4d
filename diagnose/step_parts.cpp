#include "diagnose/step_parts.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/narrow.h"

namespace gpuplan {
namespace {

constexpr double kNano = 1e-9;

/// Sorts, and joins what touches.
std::vector<TraceSpan> joined(std::vector<TraceSpan> spans) {
  std::ranges::sort(spans, {}, [](const TraceSpan& s) { return std::pair(s.begin, s.end); });
  std::vector<TraceSpan> out;
  for (const TraceSpan& span : spans)
    if (out.empty() || span.begin > out.back().end)
      out.push_back(span);
    else
      out.back().end = std::max(out.back().end, span.end);
  return out;
}

std::int64_t length(const std::vector<TraceSpan>& disjoint) {
  std::int64_t sum = 0;
  for (const TraceSpan& span : disjoint) sum += span.end - span.begin;
  return sum;
}

/// Time in both. Requires: each disjoint and in order.
std::int64_t time_in_both(const std::vector<TraceSpan>& a, const std::vector<TraceSpan>& b) {
  std::int64_t sum = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    sum += std::max<std::int64_t>(0, std::min(a[i].end, b[j].end) - std::max(a[i].begin, b[j].begin));
    a[i].end < b[j].end ? ++i : ++j;
  }
  return sum;
}

/// Spans of each thread, disjoint and in order.
class ByThread {
 public:
  explicit ByThread(const std::vector<ThreadSpan>& spans) {
    for (const ThreadSpan& span : spans) threads_[span.thread].push_back(span.span);
    for (auto& [thread, own] : threads_) own = joined(std::move(own));
  }
  bool covers(std::uint32_t thread, std::int64_t when) const {
    const auto own = threads_.find(thread);
    if (own == threads_.end()) return false;
    const auto after = std::ranges::upper_bound(own->second, when, {}, &TraceSpan::begin);
    return after != own->second.begin() && std::prev(after)->end >= when;
  }

 private:
  std::map<std::uint32_t, std::vector<TraceSpan>> threads_;
};

/// The part of each span that lies in the window.
std::vector<TraceSpan> inside(const std::vector<ThreadSpan>& spans, TraceSpan window) {
  std::vector<TraceSpan> out;
  for (const auto& [span, thread] : spans) {
    const TraceSpan part{std::max(span.begin, window.begin), std::min(span.end, window.end)};
    if (part.begin < part.end) out.push_back(part);
  }
  return joined(std::move(out));
}

/// The device whose work takes longest.
std::uint8_t busiest_device(const ProfilerTrace& trace) {
  std::array<std::int64_t, 256> busy{};
  for (const DeviceWork& work : trace.work) busy[work.device] += work.span.end - work.span.begin;
  return narrow<std::uint8_t>(std::ranges::max_element(busy) - busy.begin());
}

/// From the first step to the last, or all work.
TraceSpan window_of(const ProfilerTrace& trace) {
  TraceSpan window{std::numeric_limits<std::int64_t>::max(), 0};
  const auto add = [&](const TraceSpan& span) {
    window.begin = std::min(window.begin, span.begin);
    window.end = std::max(window.end, span.end);
  };
  if (!trace.steps.empty()) {
    std::ranges::for_each(trace.steps, add);
  } else if (!trace.work.empty()) {
    for (const DeviceWork& work : trace.work) add(work.span);
  } else {
    for (const HostOp& op : trace.ops) add(op.span);
    for (const ThreadSpan& span : trace.backward) add(span.span);
  }
  return window;
}

class Summing {
 public:
  explicit Summing(const ProfilerTrace& trace)
      : trace_(trace),
        window_(window_of(trace)),
        backward_(trace.backward),
        optimizer_(trace.optimizer) {
    out_.has_steps = !trace.steps.empty();
    out_.num_steps = std::max<std::int64_t>(1, num_distinct_steps());
    out_.is_of_cpu = trace.is_of_cpu();
  }

  StepParts take() {
    out_.step = per_step(window_.end - window_.begin);
    out_.loader = per_step(length(inside(trace_.loader, window_)));
    trace_.is_of_cpu() ? sum_host() : sum_device();
    return out_;
  }

 private:
  Seconds per_step(std::int64_t nanoseconds) const {
    return Seconds{double(nanoseconds) * kNano / double(out_.num_steps)};
  }
  /// Two processes of one trace mark the same step twice.
  std::int64_t num_distinct_steps() const { return std::int64_t(joined_steps().size()); }
  std::vector<TraceSpan> joined_steps() const {
    std::vector<TraceSpan> out;
    for (const TraceSpan& span : trace_.steps)  // in order
      if (out.empty() || 2 * span.begin >= out.back().begin + out.back().end) out.push_back(span);
    return out;
  }
  bool is_inside(const TraceSpan& span) const { return span.begin >= window_.begin && span.begin < window_.end; }

  StepPhase phase_of(const DeviceWork& work) const {
    const auto launch = std::ranges::lower_bound(trace_.launches, work.correlation, {}, &KernelLaunch::correlation);
    if (launch == trace_.launches.end() || launch->correlation != work.correlation) return StepPhase::Forward;
    return phase_at(launch->thread, launch->begin);
  }
  StepPhase phase_at(std::uint32_t thread, std::int64_t when) const {
    if (optimizer_.covers(thread, when)) return StepPhase::Optimizer;
    return backward_.covers(thread, when) ? StepPhase::Backward : StepPhase::Forward;
  }

  void sum_device() {
    const std::uint8_t device = busiest_device(trace_);
    std::vector<TraceSpan> compute, communication, copies, all;
    std::array<std::int64_t, kNumStepPhases> phases{};
    std::array<std::int64_t, kNumKernelClasses> classes{};
    std::int64_t num = 0;
    for (const DeviceWork& work : trace_.work) {
      if (work.device != device || !is_inside(work.span)) continue;
      ++num;
      const std::int64_t time = work.span.end - work.span.begin;
      classes[std::size_t(work.kind)] += time;
      all.push_back(work.span);
      if (is_collective(work.kind)) {
        communication.push_back(work.span);
      } else if (work.kind == KernelClass::Copy) {
        copies.push_back(work.span);
      } else {
        compute.push_back(work.span);
        phases[std::size_t(phase_of(work))] += time;
      }
    }
    for (std::size_t p = 0; p < phases.size(); ++p) out_.phases[p] = per_step(phases[p]);
    for (std::size_t c = 0; c < classes.size(); ++c) out_.classes[c] = per_step(classes[c]);
    out_.launches = double(num) / double(out_.num_steps);
    set_unions(joined(std::move(compute)), joined(std::move(communication)), joined(std::move(copies)),
               joined(std::move(all)));
  }

  void set_unions(const std::vector<TraceSpan>& compute, const std::vector<TraceSpan>& communication,
                  const std::vector<TraceSpan>& copies, const std::vector<TraceSpan>& all) {
    const std::int64_t overlap = time_in_both(compute, communication);
    std::vector<TraceSpan> kernels = compute;
    kernels.insert(kernels.end(), communication.begin(), communication.end());
    const std::int64_t busy = length(all);
    out_.compute = per_step(length(compute));
    out_.communication = per_step(length(communication));
    out_.overlap = per_step(overlap);
    out_.exposed = per_step(length(communication) - overlap);
    out_.copies = per_step(length(copies) - time_in_both(joined(std::move(kernels)), copies));
    // work of the last step may end after it
    out_.idle = per_step(std::max<std::int64_t>(0, window_.end - window_.begin - busy));
  }

  /// Counts operations of the host as the work where no device works; those inside others are part of them.
  void sum_host() {
    std::map<std::uint32_t, std::vector<HostOp>> threads;
    for (const HostOp& op : trace_.ops)
      if (is_inside(op.span)) threads[op.thread].push_back(op);
    std::vector<TraceSpan> compute, communication, all;
    std::array<std::int64_t, kNumKernelClasses> classes{};
    std::array<std::vector<TraceSpan>, kNumStepPhases> phases;
    for (auto& [thread, ops] : threads) {
      std::ranges::sort(ops, [](const HostOp& a, const HostOp& b) {
        return std::pair(a.span.begin, -a.span.end) < std::pair(b.span.begin, -b.span.end);
      });
      std::int64_t done = 0;
      for (const HostOp& op : ops) {
        if (op.span.begin < done) continue;
        done = op.span.end;
        classes[std::size_t(op.kind)] += op.span.end - op.span.begin;
        all.push_back(op.span);
        (is_collective(op.kind) ? communication : compute).push_back(op.span);
        if (!is_collective(op.kind)) phases[std::size_t(phase_at(thread, op.span.begin))].push_back(op.span);
      }
    }
    for (std::size_t p = 0; p < phases.size(); ++p) out_.phases[p] = per_step(length(joined(std::move(phases[p]))));
    for (std::size_t c = 0; c < classes.size(); ++c) out_.classes[c] = per_step(classes[c]);
    out_.launches = double(all.size()) / double(out_.num_steps);
    set_unions(joined(std::move(compute)), joined(std::move(communication)), {}, joined(std::move(all)));
  }

  const ProfilerTrace& trace_;
  TraceSpan window_;
  ByThread backward_, optimizer_;
  StepParts out_;
};

}  // namespace

StepParts parts_of(const ProfilerTrace& trace, const std::string& where) {
  if (trace.work.empty() && trace.ops.empty())
    throw InputError(where, "holds neither kernels nor operations", "profile with ProfilerActivity.CUDA and .CPU");
  return Summing(trace).take();
}

}  // namespace gpuplan
