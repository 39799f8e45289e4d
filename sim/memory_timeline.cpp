#include "sim/memory_timeline.h"

#include <algorithm>

#include "sim/program_cursor.h"

namespace gpuplan {
namespace {

using namespace operand;

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
    for (const ProgramBuffer& b : p_.buffers)
      if (b.is_persistent && is_counted(b)) live_ += b.bytes.count;
    points_.push_back({{}, Bytes{live_}});
  }

  void run(const Instruction& i, const Span* span) {
    if (span) now_ = std::max(now_, span->begin);
    change(i, kAllocates, 1);
    if (i.op == OpCode::Call && span) inside(all_.blocks[i.block], *span);
    change(i, kFrees, -1);
  }
  std::vector<MemoryPoint> take() { return std::move(points_); }

 private:
  static bool is_counted(const ProgramBuffer& b) { return b.space == MemorySpace::Device; }

  void add(std::int64_t bytes) {
    live_ += bytes;
    if (points_.back().time == now_ && points_.size() > 1 && bytes > 0)
      points_.back().live = std::max(points_.back().live, Bytes{live_});
    else
      points_.push_back({now_, Bytes{live_}});
  }
  void change(const Instruction& i, Operand flag, std::int64_t sign) {
    for (const Operand o : all_.operands_of(p_, i))
      if ((o & flag) && is_counted(p_.buffers[id(o)])) add(sign * p_.buffers[id(o)].bytes.count);
  }
  /// The ops of a block take equal parts of its time.
  void inside(const Block& block, const Span& span) {
    const LayerGraph& graph = all_.graphs[block.graph];
    const std::int64_t num_ops =
        std::max<std::int64_t>(1, std::count_if(block.events.begin(), block.events.end(),
                                                [](const BlockEvent& e) { return e.kind == BlockEvent::Run; }));
    const SimTime begin = now_, length = std::max(SimTime{}, span.end - begin);
    std::int64_t done = 0;
    for (const BlockEvent& e : block.events) {
      if (e.kind == BlockEvent::Run)
        now_ = begin + SimTime{length.ps / num_ops * ++done};
      else
        add((e.kind == BlockEvent::Alloc ? 1 : -1) * graph.locals[e.index].bytes().count);
    }
  }

  const StepProgram& all_;
  const RankProgram& p_;
  SimTime now_;
  std::int64_t live_{};
  std::vector<MemoryPoint> points_;
};

}  // namespace

std::vector<MemoryPoint> memory_timeline(const StepProgram& all, const RankProgram& program,
                                         const std::vector<Span>& spans, const std::vector<std::uint32_t>& of_rank,
                                         std::size_t max_points) {
  Recorder recorder(all, program);
  std::size_t next = 0;
  for (ProgramCursor cursor(all, program); !cursor.is_done(); cursor.advance()) {
    const Instruction& i = cursor.instruction();
    const bool has_span = i.op != OpCode::Release;
    recorder.run(i, has_span && next < of_rank.size() ? &spans[of_rank[next++]] : nullptr);
  }
  return thinned(recorder.take(), max_points);
}

}  // namespace gpuplan
