#include "cli/render/rates.h"

#include <fmt/format.h>

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

std::string format_rate(FlopsPerSec rate) {
  if (rate.value >= 999.5e12) return three_digits(rate.value / 1e15) + " PFLOP/s";
  if (rate.value >= 999.5e9) return three_digits(rate.value / 1e12) + " TFLOP/s";
  return three_digits(rate.value / 1e9) + " GFLOP/s";
}

}  // namespace gpuplan
