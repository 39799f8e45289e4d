#include "cluster/profile/measured.h"

#include <algorithm>
#include <cmath>

namespace gpuplan {
namespace {

double ratio_between(std::int64_t a, std::int64_t b) { return double(std::max(a, b)) / double(std::min(a, b)); }

}  // namespace

Seconds KernelRate::time(double traffic) const {
  if (curve.empty() || traffic <= 0) return {traffic > 0 ? launch.value + traffic / bandwidth.value : 0};
  const auto after = std::find_if(curve.begin(), curve.end(),
                                  [&](const KernelPoint& p) { return double(p.traffic.count) >= traffic; });
  const KernelPoint& end = after == curve.end() ? curve.back() : *after;
  const Seconds in_proportion = traffic / double(end.traffic.count) * end.time;
  if (after == curve.end()) return in_proportion;
  if (after == curve.begin()) return std::max(in_proportion, std::min(end.time, Seconds{launch.value}));
  const KernelPoint& begin = *(after - 1);
  const double share = std::log(traffic / double(begin.traffic.count)) /
                       std::log(double(end.traffic.count) / double(begin.traffic.count));
  return begin.time * std::pow(end.time / begin.time, share);
}

const GemmSurface* MeasurementsAtRanks::surface_of(GemmType type, GemmLayout layout, GemmRegime regime) const {
  const auto nearness = [&](const GemmSurface& s) {
    const bool may_stand_in = s.regime == GemmRegime::Wide && regime != GemmRegime::Batched;
    return s.type != type       ? 0
           : s.regime == regime ? 4 + int(s.layout == layout)
           : may_stand_in       ? 2 + int(s.layout == layout)
                                : 0;
  };
  const GemmSurface* best = nullptr;
  for (const GemmSurface& s : gemm)
    if (nearness(s) > (best ? nearness(*best) : 0)) best = &s;
  return best;
}

const MeasurementsAtRanks* Measured::load_of(std::int64_t num_ranks) const {
  if (on.kind == "cpu") num_ranks = std::min(num_ranks, std::max<std::int64_t>(1, on.num_cores));
  const MeasurementsAtRanks* best = nullptr;
  for (const MeasurementsAtRanks& load : loads)
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

const ScalarFit* Measured::sync_latency_of(std::int64_t num_ranks) const {
  const auto takes_turns = [&](std::int64_t n) { return on.kind == "cpu" && n > on.num_cores; };
  const auto distance = [&](const ScalarFit& s) {
    constexpr double kOther = 1e6;  // ranks that wait for a core meet in another way than those that do not
    return ratio_between(s.num_ranks, num_ranks) + (takes_turns(s.num_ranks) == takes_turns(num_ranks) ? 0 : kOther);
  };
  const ScalarFit* best = nullptr;
  for (const ScalarFit& scalar : scalars)
    if (scalar.name == "dispatch meeting" && (!best || distance(scalar) < distance(*best))) best = &scalar;
  return best;
}

}  // namespace gpuplan
