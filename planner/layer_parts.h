// The parts that each layer's tensors are cut into: what a reader of a step program has to know of how ranks share
// layers, whatever axes they share them along.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "models/mesh.h"

namespace gpuplan {

/// So many ranks, `stride` apart, hold a part each of every layer's tensors, and have the same tokens.
struct LayerParts {
  std::int64_t ways = 1, stride = 1;
  /// Says which of the parts `rank` holds.
  std::int64_t of(std::int64_t rank) const { return rank / stride % ways; }
};

/// Ranks that are laid out beside others and do a part of a layer's work have a part of its tensors for that; those
/// that share a sequence have whole ones.
inline LayerParts layer_parts(const Mesh& mesh) {
  LayerParts parts;
  for (const AxisRow& row : kAxes) {
    if (!row.divides_layer || !is_counted(row) || mesh.ways(row.axis) == 1) continue;
    GPUPLAN_CHECK(parts.ways == 1, "layers are cut along one axis");
    parts = {mesh.ways(row.axis), mesh.stride(row.axis)};
  }
  return parts;
}

}  // namespace gpuplan
