// Why the step takes as long as it does: from the last span back to the one whose end let it begin, to the start of the
// step.
#pragma once

#include <vector>

#include "sim/simulation.h"

namespace gpuplan {

/// Spans of the path, first to last. Where a span waits for the host the path ends: the host issues without pause from
/// the start.
std::vector<std::uint32_t> find_critical_path(const std::vector<Span>& spans);

/// Time of the path by what it does, longest first: the parts add up to the step.
struct CriticalPart {
  Activity activity{};
  bool is_host{};  // the host has not launched the next kernel yet
  Seconds time;
  std::uint32_t longest{Span::kNoSpan};  // the longest span among them
};
std::vector<CriticalPart> sum_critical_path(const std::vector<Span>& spans, const std::vector<std::uint32_t>& path);

}  // namespace gpuplan
