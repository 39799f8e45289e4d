#include "cli/render/amounts.h"

#include <fmt/format.h>

#include "base/unit_text.h"

namespace gpuplan {
namespace {

std::string three_digits(double value) {
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}", value, decimals);
}

}  // namespace

std::string format_rate(BytesPerSec rate) {
  if (rate.value >= 999.5e9) return three_digits(rate.value / 1e12) + " TB/s";
  if (rate.value >= 999.5e6) return three_digits(rate.value / 1e9) + " GB/s";
  return three_digits(rate.value / 1e6) + " MB/s";
}

std::string format_short_duration(Seconds time) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 86400;
  if (time.value < 99.5) return format_duration(time);
  if (time.value < 99.5 * kMinute) return three_digits(time.value / kMinute) + " min";
  if (time.value < 47.95 * kHour) return three_digits(time.value / kHour) + " h";
  return three_digits(time.value / kDay) + " d";
}

std::string format_rate(FlopsPerSec rate) {
  if (rate.value >= 999.5e12) return three_digits(rate.value / 1e15) + " PFLOP/s";
  if (rate.value >= 999.5e9) return three_digits(rate.value / 1e12) + " TFLOP/s";
  return three_digits(rate.value / 1e9) + " GFLOP/s";
}

}  // namespace gpuplan
