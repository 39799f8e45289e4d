#include "cluster/profile/collective_curve.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace gpuplan {
namespace {

constexpr std::array kScopes{NameRow<RankScope>{"all", RankScope::All}, NameRow<RankScope>{"pair", RankScope::Pair}};

Seconds line(const CurveSegment& segment, Bytes message) {
  return {segment.alpha.value + double(message.count) / segment.bandwidth.value};
}

}  // namespace

NameTable<RankScope> names_of(RankScope) { return {"group of ranks", kScopes}; }

const CurveSegment& CollectiveCurve::segment(Bytes message) const {
  GPUPLAN_CHECK(!segments.empty(), "a collective curve without segments");
  const auto later =
      std::find_if(segments.begin() + 1, segments.end(), [&](const CurveSegment& s) { return s.from > message; });
  return *(later - 1);
}

Seconds CollectiveCurve::time(Bytes message) const {
  // A segment starts no lower than the ones before it ended.
  const CurveSegment& own = segment(message);
  Seconds time = line(own, message);
  for (std::size_t i = 0; &segments[i] != &own; ++i) time = std::max(time, line(segments[i], segments[i + 1].from));
  return std::exp(correction.at(correction_sizes(message))) * time;
}

BytesPerSec CollectiveCurve::bus_bandwidth(Bytes message) const {
  return {bus_factor(kind, num_ranks) * double(message.count) / time(message).value};
}

}  // namespace gpuplan
