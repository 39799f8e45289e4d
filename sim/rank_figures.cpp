#include "sim/rank_figures.h"

#include <algorithm>

#include "planner/memory.h"

namespace gpuplan {
namespace {

struct Interval {
  SimTime begin, end;
};
using Intervals = std::vector<Interval>;  // disjoint and ascending after `merged`

Intervals merged(Intervals all) {
  std::ranges::sort(all, [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  Intervals out;
  for (const Interval& i : all) {
    if (i.begin >= i.end) continue;
    if (!out.empty() && i.begin <= out.back().end)
      out.back().end = std::max(out.back().end, i.end);
    else
      out.push_back(i);
  }
  return out;
}

SimTime total(const Intervals& all) {
  SimTime sum;
  for (const Interval& i : all) sum += i.end - i.begin;
  return sum;
}

/// Gives what of `a` is not in `b`; both merged.
Intervals without(const Intervals& a, const Intervals& b) {
  Intervals out;
  std::size_t k = 0;
  for (Interval i : a) {
    while (k < b.size() && b[k].end <= i.begin) ++k;
    for (std::size_t j = k; j < b.size() && b[j].begin < i.end && i.begin < i.end; ++j) {
      if (b[j].begin > i.begin) out.push_back({i.begin, b[j].begin});
      i.begin = std::max(i.begin, b[j].end);
    }
    if (i.begin < i.end) out.push_back(i);
  }
  return out;
}

/// The spans of one rank as intervals, by what they occupy.
struct Occupied {
  Intervals compute, kernels, transfers, awaited, launches;
};

Occupied occupied_by(const std::vector<Span>& spans, const std::vector<std::uint32_t>& of_rank) {
  Occupied o;
  SimTime compute_free;  // end of the compute stream's last span
  for (const std::uint32_t k : of_rank) {
    const Span& s = spans[k];
    const bool is_transfer = is_communication(s.activity);
    if (s.stream == StreamId::Compute && !s.is_async_kernel) {
      if (s.waits_for_host) o.launches.push_back({compute_free, s.begin});
      o.launches.push_back({s.begin + s.active, s.end});  // between its kernels
      o.compute.push_back({s.begin, s.begin + s.active});
      o.kernels.push_back({s.begin, s.begin + s.active});
      compute_free = std::max(compute_free, s.end);
    } else if (s.stream == StreamId::Recv) {
      o.transfers.push_back({s.end - s.active, s.end});
      o.awaited.push_back({s.begin, s.end - s.active});
    } else if (is_transfer) {
      o.transfers.push_back({s.begin, s.end});
    }
    if (s.is_async_kernel || (s.activity == Activity::Cast && s.stream != StreamId::Host))
      o.kernels.push_back({s.begin, s.end});
  }
  for (Intervals* part : {&o.compute, &o.kernels, &o.transfers, &o.awaited, &o.launches})
    *part = merged(std::move(*part));
  return o;
}

}  // namespace

void measure_rank(SimulatedRank& rank, const std::vector<Span>& spans, const std::vector<std::uint32_t>& of_rank,
                  SimTime step) {
  const Occupied o = occupied_by(spans, of_rank);
  for (const std::uint32_t k : of_rank)
    if (spans[k].stream != StreamId::Recv) rank.busy[std::size_t(spans[k].stream)] += spans[k].end - spans[k].begin;
  rank.compute = total(o.compute);
  rank.resident = total(o.kernels);
  Intervals rest = without({{SimTime{}, step}}, o.compute);
  const auto take = [&](const Intervals& what) {
    const SimTime before = total(rest);
    rest = without(rest, what);
    return before - total(rest);
  };
  rank.exposed_communication = take(o.transfers);
  rank.bubble = take(o.awaited);
  rank.host_bound = take(o.launches);
  rank.idle = total(rest);
}

namespace {

/// The highest of each stretch keeps the shape and the peak; begin and end stay.
std::vector<MemoryPoint> thinned(std::vector<MemoryPoint> full, std::size_t max_points) {
  if (full.size() <= max_points || max_points < 3) return full;
  std::vector<MemoryPoint> out{full.front()};
  const std::size_t stretch = (full.size() + max_points - 1) / max_points;
  for (std::size_t i = 0; i < full.size(); i += stretch) {
    const auto begin = full.begin() + std::ptrdiff_t(i),
               end = full.begin() + std::ptrdiff_t(std::min(i + stretch, full.size()));
    out.push_back(*std::max_element(begin, end, [](const auto& a, const auto& b) { return a.live < b.live; }));
  }
  out.push_back(full.back());
  return out;
}

class Recorder {
 public:
  Recorder(const StepProgram& all, const RankProgram& program) : all_(all), p_(program) {
    for (const ProgramBuffer& buffer : program.buffers)
      if (buffer.is_persistent && buffer.space == MemorySpace::Device) change(buffer.category, buffer.bytes);
    points_.push_back(now_);
  }

  /// The ops of a block take equal parts of its time.
  void run(const ProgramCursor& at, const Span* span) {
    SimTime& now = now_.time;
    if (span) now = std::max(now, span->begin);
    const SimTime begin = now, length = span ? std::max(SimTime{}, span->end - begin) : SimTime{};
    const std::int64_t num_ops = runs_block(at.instruction()) ? ops_of(all_.blocks[at.instruction().block]) : 0;
    each_device_change(all_, p_, at, [&](const DeviceChange& c) {
      if (c.ops_before > 0) now = begin + SimTime{length.ps / num_ops * c.ops_before};
      change(c.local ? category_of(c.local->kind) : p_.buffers[c.buffer].category, Bytes{c.bytes});
      add(c.bytes > 0);
    });
    if (num_ops > 0) now = begin + SimTime{length.ps / num_ops * num_ops};
  }
  std::vector<MemoryPoint> take() { return std::move(points_); }

 private:
  static std::int64_t ops_of(const Block& block) {
    return std::count_if(block.events.begin(), block.events.end(),
                         [](const BlockEvent& e) { return e.kind == BlockEvent::Run; });
  }
  void change(Category category, Bytes bytes) {
    now_.live += bytes;
    now_.by_category[std::size_t(category)] += bytes;
  }
  /// Keeps the fullest of the changes at one moment.
  void add(bool grows) {
    MemoryPoint& last = points_.back();
    if (last.time != now_.time || points_.size() == 1 || !grows)
      points_.push_back(now_);
    else if (last.live < now_.live)
      last = now_;
    constexpr std::size_t kMostPoints = 1 << 18;  // a step of thousands of micro-batches has a hundred times as many
    if (points_.size() >= kMostPoints) points_ = thinned(std::move(points_), kMostPoints / 2);
  }

  const StepProgram& all_;
  const RankProgram& p_;
  MemoryPoint now_;
  std::vector<MemoryPoint> points_;
};

}  // namespace

std::vector<MemoryPoint> memory_timeline(const StepProgram& all, const RankProgram& program,
                                         const std::vector<Span>& spans, const std::vector<std::uint32_t>& of_rank,
                                         std::size_t max_points) {
  Recorder recorder(all, program);
  std::size_t next = 0;
  walk(program, [&](const ProgramCursor& at) {
    const bool has_span = at.instruction().op != OpCode::Release;
    recorder.run(at, has_span && next < of_rank.size() ? &spans[of_rank[next++]] : nullptr);
  });
  return thinned(recorder.take(), max_points);
}

}  // namespace gpuplan
