#include "base/yaml_text.h"

#include <array>
#include <charconv>
#include <cstdlib>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace gpuplan {
namespace {

/// The digits with a point after the first `whole` of them: digits "106", whole 2 is "10.6".
std::string with_point(const std::string& digits, int whole) {
  const int count = int(digits.size());
  if (whole <= 0) return "0." + std::string(std::size_t(-whole), '0') + digits;
  if (whole >= count) return digits + std::string(std::size_t(whole - count), '0');
  return digits.substr(0, std::size_t(whole)) + "." + digits.substr(std::size_t(whole));
}

}  // namespace

std::string decimal(double value, int exponent) {
  if (value == 0) return "0";
  std::array<char, 64> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific).ptr;
  std::string digits(buffer.data(), end);  // "-1.06e+10"
  const auto mark = digits.find('e');
  const int magnitude = std::atoi(digits.c_str() + mark + 1) - exponent;
  digits.resize(mark);
  const std::string sign = digits.front() == '-' ? "-" : "";
  if (!sign.empty()) digits.erase(0, 1);
  if (digits.size() > 1) digits.erase(1, 1);  // the point
  constexpr int kPlain = 15;
  if (magnitude > kPlain || magnitude < -kPlain) return fmt::format("{}{}e{}", sign, with_point(digits, 1), magnitude);
  return sign + with_point(digits, magnitude + 1);
}

std::string in_gb_s(BytesPerSec rate) { return decimal(rate.value, 9); }
std::string in_gbit_s(BytesPerSec rate) { return decimal(rate.value * 8, 9); }
std::string in_tflops(FlopsPerSec rate) { return decimal(rate.value, 12); }
std::string in_us(Seconds time) { return decimal(time.value, -6); }
std::string in_mib(Bytes amount) { return decimal(double(amount.count) / 0x1p20); }
std::string in_gib(Bytes amount) { return decimal(double(amount.count) / 0x1p30); }

std::string in_quotes(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace gpuplan
