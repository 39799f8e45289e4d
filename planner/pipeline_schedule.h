// In which order a stage of a pipeline visits its chunks of layers with each micro-batch, forward and backward: rows of
// one table. The builder walks these visits; nothing else knows a schedule's name.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "planner/strategy.h"

namespace gpuplan {

/// A pass of one micro-batch through one chunk of a stage.
struct Visit {
  bool is_backward{};
  std::uint16_t chunk{};
  std::uint32_t micro_batch{};
  bool operator==(const Visit&) const = default;
};

/// Sizes of a pipeline, and whose order is asked for.
struct PipelinePlace {
  std::int64_t stages = 1, chunks = 1;  // chunks of layers that each stage has
  std::int64_t micro_batches = 1, stage = 0;
};

struct PipelineRow {
  Schedule schedule;
  std::string_view name;
  bool has_chunks;  // more than one per stage
  bool holds_all;   // micro-batches of the step at once
  std::vector<Visit> (*order)(const PipelinePlace& place);
};
std::span<const PipelineRow> pipeline_schedules();
/// Null: a schedule whose stages take turns.
const PipelineRow* pipeline_row(Schedule schedule);

/// Finds it by name. Throws InputError naming `where`.
Schedule parse_schedule(std::string_view text, std::string_view where);

/// The units (0: embedding, then the layers, then the head) at which the parts of a pipeline begin, and the end of the
/// last. Each stage has the layers that the strategy says, its chunks as many each; or, where `counts_ends` and nothing
/// is said, as many units. Empty: they cannot be divided so.
std::vector<std::uint16_t> pipeline_bounds(std::int64_t layers, const Strategy& strategy, bool counts_ends);

/// Micro-batches of one chunk that are between their two visits at once, at most.
std::int64_t most_in_flight(std::span<const Visit> visits);

}  // namespace gpuplan
