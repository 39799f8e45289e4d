#include "sim/memory_timeline.h"

#include <algorithm>

#include "planner/memory.h"

namespace gpuplan {
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
  Recorder(const StepProgram& all, const RankProgram& program)
      : all_(all),
        p_(program),
        live_(resident_bytes(program)) {
    points_.push_back({{}, live_});
  }

  /// The ops of a block take equal parts of its time.
  void run(const ProgramCursor& at, const Span* span) {
    if (span) now_ = std::max(now_, span->begin);
    const SimTime begin = now_, length = span ? std::max(SimTime{}, span->end - begin) : SimTime{};
    const std::int64_t num_ops = at.instruction().op == OpCode::Call ? ops_of(all_.blocks[at.instruction().block]) : 0;
    each_device_change(all_, p_, at, [&](const DeviceChange& c) {
      if (c.ops_before > 0) now_ = begin + SimTime{length.ps / num_ops * c.ops_before};
      add(Bytes{c.bytes});
    });
    if (num_ops > 0) now_ = begin + SimTime{length.ps / num_ops * num_ops};
  }
  std::vector<MemoryPoint> take() { return std::move(points_); }

 private:
  static std::int64_t ops_of(const Block& block) {
    return std::count_if(block.events.begin(), block.events.end(),
                         [](const BlockEvent& e) { return e.kind == BlockEvent::Run; });
  }
  void add(Bytes change) {
    live_ += change;
    if (points_.back().time == now_ && points_.size() > 1 && change.count > 0)
      points_.back().live = std::max(points_.back().live, live_);
    else
      points_.push_back({now_, live_});
  }

  const StepProgram& all_;
  const RankProgram& p_;
  SimTime now_;
  Bytes live_;
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
