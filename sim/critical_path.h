// Why the step takes as long as it does: from the last span back to the one whose end let it begin, to the start of the
// step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/simulated_step.h"

namespace gpuplan {

/// Spans of the path, first to last. Where a span waits for the host the path ends: the host issues without pause from
/// the start.
std::vector<std::uint32_t> find_critical_path(const std::vector<Span>& spans);

/// Time of the path by what it does, longest first: the parts add up to the step.
struct CriticalPart {
  Activity activity{};
  Axis axis{};
  bool is_host{};                          // the host has not launched the next kernel yet
  std::optional<std::uint32_t> straggler;  // the part is what its slowness adds: index into Simulation::ranks
  Seconds time;
  std::uint32_t longest{Span::kNoSpan};  // the longest span among them
};
/// `slowness`: factor on the work of each rank, or empty when none is a straggler.
std::vector<CriticalPart> sum_critical_path(const std::vector<Span>& spans, const std::vector<std::uint32_t>& path,
                                            std::span<const double> slowness = {});

/// Gives one item per kind of work on the path and one for what each straggler adds, longest first; those below 0.5 %
/// of the step are one item at the end.
std::vector<CriticalItem> describe_critical_path(const Simulation& simulation, const SimInput& input,
                                                 const SimOptions& options);

/// The way of the messages of `axis` and the link that holds them up most, by its two ends: "over the network, slowest
/// between host bridge 0 and host bridge 1 (16 GB/s)".
std::string describe_bottleneck(const SimInput& input, const Topology* topology, Axis axis);

}  // namespace gpuplan
