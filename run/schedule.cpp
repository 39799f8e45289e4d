#include "run/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "base/error.h"
#include "base/names.h"

namespace gpuplan {
namespace {

constexpr std::array<std::string_view, kLrSchedules.size()> kNames{"constant", "linear", "cosine"};

}  // namespace

std::string_view to_string(LrSchedule schedule) { return kNames[std::size_t(schedule)]; }

LrSchedule parse_lr_schedule(std::string_view text, std::string_view where) {
  const auto at = std::find(kNames.begin(), kNames.end(), text);
  if (at != kNames.end()) return kLrSchedules[std::size_t(at - kNames.begin())];
  throw InputError(std::string(where), "unknown schedule '" + std::string(text) + "'", "constant, linear or cosine");
}

double LearningRate::at(std::int64_t step) const {
  if (step < warmup_steps) return peak * double(step) / double(std::max<std::int64_t>(1, warmup_steps));
  const double left = double(std::max<std::int64_t>(1, total_steps - warmup_steps));
  const double done = double(step - warmup_steps) / left;
  switch (schedule) {
    case LrSchedule::Constant: return peak;
    case LrSchedule::Linear: return peak * std::max(0.0, 1 - done);
    case LrSchedule::Cosine: return peak * std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * done)));
  }
  return peak;
}

}  // namespace gpuplan
