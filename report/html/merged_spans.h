// Spans as a page draws them: where there are too many, neighbours that look like one are one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sim/simulation.h"

namespace gpuplan {

/// One or several spans of a stream, drawn as one.
struct MergedSpan {
  std::uint32_t first{};  // span
  SimTime begin, end, working, waiting;
  std::int64_t count = 1;
  Bytes bytes;
  bool is_critical{};
};

struct Tracks {
  static constexpr std::uint32_t kNone = 0xffffffff;
  std::map<std::pair<std::uint32_t, int>, std::vector<MergedSpan>> of;  // by rank and stream
  std::vector<std::uint32_t> place;  // per span: in its track; kNone: of a rank left out
  std::size_t num_drawn{};
};

class SpanMerging {
 public:
  /// Keeps a reference to `simulation`. Only the first `num_ranks` ranks are looked at.
  SpanMerging(const Simulation& simulation, std::size_t num_ranks);

  /// Neighbours of the same activity that together are shorter than `pixel` are one; a pixel of no length merges none.
  Tracks merge(SimTime pixel) const;

 private:
  MergedSpan alone(std::uint32_t i) const;
  void add(MergedSpan& last, std::uint32_t i) const;

  const Simulation& simulation_;
  std::vector<bool> is_critical_;
  std::vector<std::uint32_t> order_;
};

}  // namespace gpuplan
