#include "validate/verdicts.h"

#include <cmath>

namespace gpuplan {
namespace {

bool is_too_close(const PointResult& result) {
  const MemoryFigures& memory = result.point->memory;
  const double capacity = double(result.tiers->capacity.count), needed = double(result.tiers->needed.count);
  if (memory.gib && !memory.ran_out && *memory.gib * 0x1p30 > (1 - kTooClose) * capacity) return true;
  return std::abs(needed / capacity - 1) < kTooClose;
}

}  // namespace

std::optional<bool> predicted_fit(const PointResult& result) {
  if (!result.tiers || result.tiers->capacity.count <= 0) return std::nullopt;
  return result.tiers->needed <= result.tiers->capacity;
}

VerdictCounts count_verdicts(const std::vector<PointResult>& results) {
  VerdictCounts counts;
  for (const PointResult& r : results) {
    if (r.status != PointStatus::Scored || r.point->kind != PointKind::Memory) continue;
    const auto fits = predicted_fit(r);
    if (!fits || !r.point->memory.capacity_gib || is_too_close(r)) {
      ++counts.left_out;
    } else if (r.point->memory.ran_out) {
      ++(*fits ? counts.oom_fits : counts.oom_oom);
      if (*fits) counts.dangerous.push_back(r.point->id);
    } else {
      ++(*fits ? counts.ok_fits : counts.ok_oom);
      if (!*fits) counts.false_alarms.push_back(r.point->id);
    }
  }
  return counts;
}

}  // namespace gpuplan
