// Spans and memory of a simulation as compact JSON for the script of the report, thinned where a run is too big for a
// page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "sim/simulation.h"

namespace gpuplan {

struct TimelineLimits {
  std::size_t max_spans = 40'000;  // about 40 bytes each
  std::size_t max_ranks = 16;
  std::size_t max_points = 4'000;  // of the memory curve, per rank
  std::size_t max_messages = 5'000;
};

struct TimelineData {
  nlohmann::ordered_json json;
  std::size_t num_spans{}, num_drawn{};  // simulated; on the page, after neighbours were merged
  std::size_t num_ranks{};               // on the page
  std::int64_t num_columns{};            // neighbours closer than 1 / num_columns of the step are merged; 0: none were
};

/// Tracks are flat lists of kSpanFields numbers per span: gap to the end of the one before and duration (ns), activity,
/// unit, micro batch, flags (1 critical, 2 waited for the host, 4 waits at its begin), merged spans, bytes, waiting
/// (ns), cause (place among all spans of the page, -1: none).
constexpr int kSpanFields = 10;
TimelineData timeline_data(const Simulation& simulation, std::int64_t num_layers, const TimelineLimits& limits = {});

}  // namespace gpuplan
