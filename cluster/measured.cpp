#include "cluster/measured.h"

#include <algorithm>

namespace gpuplan {
namespace {

double ratio_between(std::int64_t a, std::int64_t b) { return double(std::max(a, b)) / double(std::min(a, b)); }

}  // namespace

const GemmSurface* MachineLoad::surface_of(GemmType type, GemmLayout layout, GemmRegime regime) const {
  const auto nearness = [&](const GemmSurface& s) {
    const bool may_stand_in = s.regime == GemmRegime::Wide && regime != GemmRegime::Batched;
    return s.type != type ? 0 : s.regime == regime ? 4 + int(s.layout == layout) : may_stand_in ? 2 + int(s.layout == layout) : 0;
  };
  const GemmSurface* best = nullptr;
  for (const GemmSurface& s : gemm)
    if (nearness(s) > (best ? nearness(*best) : 0)) best = &s;
  return best;
}

const MachineLoad* Measured::load_of(std::int64_t num_ranks) const {
  if (on.kind == "cpu") num_ranks = std::min(num_ranks, std::max<std::int64_t>(1, on.num_cores));
  const MachineLoad* best = nullptr;
  for (const MachineLoad& load : loads)
    if (!best || ratio_between(load.num_ranks, num_ranks) < ratio_between(best->num_ranks, num_ranks)) best = &load;
  return best;
}

const CollectiveCurve* Measured::curve_of(CollectiveKind kind, std::int64_t num_ranks) const {
  const CollectiveCurve* best = nullptr;
  for (const CollectiveCurve& curve : collectives) {
    if (curve.kind != kind) continue;
    if (!best || ratio_between(curve.num_ranks, num_ranks) < ratio_between(best->num_ranks, num_ranks)) best = &curve;
  }
  return best;
}

}  // namespace gpuplan
