// Published memory points as plans: reads data/validation/memory.jsonl and maps the facts of a point to a recipe, a framework
// and a strategy, through tables only. Points of models that are not modelled yet are left out by name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/estimate.h"

namespace gpuplan {

struct MemoryPoint {
  std::string id, source, group, metric;
  std::string unsupported;  // why it has no plan, else empty
  std::optional<double> allocated_gib, process_gib, reserved_gib;
  EstimateRequest request;
};

std::vector<MemoryPoint> read_memory_points();

/// The prediction of a point: tiers of the fullest rank.
MemoryTiers predict(const MemoryPoint& point);

}  // namespace gpuplan
