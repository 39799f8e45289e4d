#include "report/text/amounts.h"

#include <fmt/format.h>

#include "base/unit_text.h"

namespace gpuplan {
namespace {

std::string three_digits(double value) {
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}", value, decimals);
}

/// "21.3 GiB" times `factor`, without the unit and as exact: "19.5"; empty for a text of several parts, "3 min 20 s".
std::string scaled_number(const std::string& amount, double factor) {
  const auto space = amount.find(' ');
  if (space == std::string::npos || amount.find(' ', space + 1) != std::string::npos) return "";
  const auto point = amount.find('.');
  const int decimals = point < space ? int(space - point - 1) : 0;
  return fmt::format("{:.{}f}", std::stod(amount.substr(0, space)) * factor, decimals);
}

std::string ranged(const std::string& amount, const AccuracyRange& range, const std::string& low,
                   const std::string& high) {
  const std::string from = scaled_number(amount, range.low), to = scaled_number(amount, range.high);
  return fmt::format("{} ({}-{})", amount, from.empty() ? low : from, to.empty() ? high : to);
}

}  // namespace

std::string with_range(Bytes amount, const std::optional<AccuracyRange>& range) {
  return range ? ranged(format_bytes(amount), *range, "", "") : format_bytes(amount);
}

std::string with_range(Seconds time, const std::optional<AccuracyRange>& range) {
  if (!range) return format_duration(time);
  return ranged(format_duration(time), *range, format_short_duration(range->low * time),
                format_short_duration(range->high * time));
}

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
