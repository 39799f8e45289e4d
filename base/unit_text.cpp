#include "base/unit_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <span>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"

namespace gpuplan {
namespace {

/// Three significant digits without an exponent: 5.31, 53.1, 531, 5310.
std::string three_digits(double value) {
  const double size = std::abs(value);
  const int decimals = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}", value, decimals);
}

struct Unit {
  std::string_view name;
  double size;
};
constexpr std::array kByteUnits{Unit{"tib", 0x1p40}, Unit{"gib", 0x1p30}, Unit{"mib", 0x1p20},
                                Unit{"kib", 0x1p10}, Unit{"tb", 1e12},    Unit{"gb", 1e9},
                                Unit{"mb", 1e6},     Unit{"kb", 1e3},     Unit{"b", 1}};

constexpr std::array kTimeUnits{Unit{"days", 86400}, Unit{"day", 86400}, Unit{"hours", 3600}, Unit{"hour", 3600},
                                Unit{"minutes", 60}, Unit{"minute", 60}, Unit{"seconds", 1},  Unit{"second", 1},
                                Unit{"min", 60},     Unit{"ms", 1e-3},   Unit{"us", 1e-6},    Unit{"ns", 1e-9},
                                Unit{"s", 1},        Unit{"h", 3600},    Unit{"d", 86400},    Unit{"m", 60}};

/// A number with a unit of `units` behind it, in the base unit; the first unit that fits counts.
struct Amount {
  double value{};
  std::string_view problem;
};
struct AmountProblems {
  std::string_view no_unit, no_number;
};
Amount parse_amount(std::string_view text, std::span<const Unit> units, AmountProblems problems) {
  const std::string lower = to_lower(trim(text));
  const auto unit =
      std::find_if(units.begin(), units.end(), [&](const Unit& row) { return lower.ends_with(row.name); });
  if (unit == units.end()) return {0, problems.no_unit};
  const std::string number(trim(std::string_view(lower).substr(0, lower.size() - unit->name.size())));
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end) * unit->size;
  if (number.empty() || end != number.c_str() + number.size() || std::isnan(value)) return {0, problems.no_number};
  return {value, {}};
}

}  // namespace

std::string format_bytes(Bytes amount) {
  const double value = double(amount.count), size = std::abs(value);
  if (size >= 1023.5 * 0x1p30) return three_digits(value / 0x1p40) + " TiB";
  if (size >= 1023.5 * 0x1p20) return three_digits(value / 0x1p30) + " GiB";
  if (size >= 1023.5 * 0x1p10) return three_digits(value / 0x1p20) + " MiB";
  if (size >= 1024) return three_digits(value / 0x1p10) + " KiB";
  return fmt::format("{} B", amount.count);
}

std::string format_duration(Seconds time) {
  const double s = time.value;
  if (!std::isfinite(s)) return fmt::format("{} s", s);
  if (s < 0) return "-" + format_duration(Seconds{-s});
  if (s < 0.9995e-6) return fmt::format("{:.0f} ns", s * 1e9);
  if (s < 0.9995e-3) return three_digits(s * 1e6) + " us";
  if (s < 0.9995) return three_digits(s * 1e3) + " ms";
  if (s < 99.5) return three_digits(s) + " s";
  const auto seconds = std::llround(s);
  if (s < 5970) return fmt::format("{} min {} s", seconds / 60, seconds % 60);
  const auto minutes = std::llround(s / 60);
  if (minutes < 48 * 60) return fmt::format("{} h {} min", minutes / 60, minutes % 60);
  const auto hours = std::llround(s / 3600);
  if (hours < 10000 * 24) return fmt::format("{} d {} h", hours / 24, hours % 24);
  return fmt::format("{:.3g} years", s / (365.25 * 86400));
}

std::string format_count(std::int64_t count) {
  const double value = double(count);
  if (value >= 999.5e9) return three_digits(value / 1e12) + " T";
  if (value >= 999.5e6) return three_digits(value / 1e9) + " B";
  if (value >= 999.5e3) return three_digits(value / 1e6) + " M";
  if (value >= 10000) return three_digits(value / 1e3) + " k";
  return fmt::format("{}", count);
}

std::string format_grouped(std::int64_t count) {
  std::string digits = fmt::format("{}", count), out;
  const std::size_t sign = count < 0 ? 1 : 0;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > sign && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string format_usd(double usd) {
  if (!std::isfinite(usd)) return fmt::format("${}", usd);
  if (usd < 0) return fmt::format("-{}", format_usd(-usd));
  if (usd >= 999.5) return fmt::format("${}", format_grouped(std::llround(usd)));
  if (usd >= 0.0995) return fmt::format("${:.2f}", usd);
  if (usd >= 1e-4 || usd == 0) return fmt::format("${:.2g}", usd);
  return "<$0.0001";
}

Seconds parse_time(std::string_view text, std::string_view where) {
  const Amount amount = parse_amount(text, kTimeUnits, {"has no unit of time", "is not a time"});
  if (!amount.problem.empty() || amount.value < 0 || !std::isfinite(amount.value))
    throw InputError(std::string(where),
                     fmt::format("'{}' {}", text, amount.problem.empty() ? "is out of range" : amount.problem),
                     "write for example '20ms' or '1.5 s'");
  return {amount.value};
}

namespace {

Amount amount_of_memory(std::string_view text) {
  Amount amount = parse_amount(text, kByteUnits, {"has no unit of memory", "is not an amount of memory"});
  if (amount.problem.empty() && (amount.value < 0 || amount.value > 9e18)) amount.problem = "is out of range";
  return amount;
}

}  // namespace

std::optional<Bytes> as_bytes(std::string_view text) {
  const Amount amount = amount_of_memory(text);
  return amount.problem.empty() ? std::optional(Bytes{std::llround(amount.value)}) : std::nullopt;
}

Bytes parse_bytes(std::string_view text, std::string_view where) {
  if (const auto amount = as_bytes(text)) return *amount;
  throw InputError(std::string(where), fmt::format("'{}' {}", text, amount_of_memory(text).problem),
                   "write for example '80 GiB' or '24 GB'");
}

}  // namespace gpuplan
