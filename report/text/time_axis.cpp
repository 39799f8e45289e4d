#include "report/text/time_axis.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

namespace gpuplan {
namespace {

struct TimeUnit {
  std::int64_t ps;
  std::string_view name;
};
constexpr std::array kUnits{TimeUnit{1'000'000'000'000, "s"}, TimeUnit{1'000'000'000, "ms"}, TimeUnit{1'000'000, "us"},
                            TimeUnit{1'000, "ns"}, TimeUnit{1, "ps"}};

/// The largest unit in which `end` is at least two, so that labels stay short.
const TimeUnit& unit_for(SimTime end) {
  for (const TimeUnit& unit : kUnits)
    if (end.ps >= 2 * unit.ps) return unit;
  return kUnits.back();
}

/// The smallest round distance of which at most `max_marks` fit into `length`, both ends included.
std::int64_t round_distance(std::int64_t length, int max_marks) {
  for (std::int64_t power = 1;; power *= 10)
    for (const std::int64_t factor : {1, 2, 5})
      if (length / (factor * power) < max_marks) return factor * power;
}

}  // namespace

std::vector<TimeMark> time_marks(SimTime begin, SimTime end, int max_marks) {
  const std::int64_t distance = round_distance(std::max<std::int64_t>(0, (end - begin).ps), std::max(1, max_marks));
  const TimeUnit& unit = unit_for(end);
  std::vector<TimeMark> marks;
  for (std::int64_t t = (begin.ps + distance - 1) / distance * distance; t <= end.ps; t += distance)
    marks.push_back({{t}, t == 0 ? "0" : fmt::format("{:.9g} {}", double(t) / double(unit.ps), unit.name)});
  return marks;
}

}  // namespace gpuplan
