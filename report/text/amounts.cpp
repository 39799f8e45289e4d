#include "report/text/amounts.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "base/narrow.h"
#include "base/unit_text.h"

namespace gpuplan {
namespace {

std::string three_digits(double value) {
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}", value, decimals);
}

/// "21.3 GiB" times `factor`, without the unit and as exact: "19.5".
std::string scaled_number(const std::string& amount, double factor) {
  const auto space = amount.find(' ');
  const auto point = amount.find('.');
  const int decimals = point < space ? narrow<int>(space - point - 1) : 0;
  return fmt::format("{:.{}f}", std::stod(amount.substr(0, space)) * factor, decimals);
}

std::string ranged(const std::string& amount, const AccuracyRange& range) {
  return fmt::format("{} ({}-{})", amount, scaled_number(amount, range.low), scaled_number(amount, range.high));
}

}  // namespace

std::string with_range(Bytes amount, const std::optional<AccuracyRange>& range) {
  return range ? ranged(format_bytes(amount), *range) : format_bytes(amount);
}

namespace {

struct NamedUnit {
  std::string_view name;
  double seconds{};
};
constexpr std::array kNamedUnits{NamedUnit{"us", 1e-6}, NamedUnit{"ms", 1e-3}, NamedUnit{"s", 1},
                                 NamedUnit{"min", 60},  NamedUnit{"h", 3600},  NamedUnit{"d", 86400}};

}  // namespace

std::string with_range(Seconds time, const std::optional<AccuracyRange>& range) {
  const std::string amount = format_short_duration(time);
  if (!range) return amount;
  const std::size_t space = amount.find(' '), point = amount.find('.');
  const std::string name = space == std::string::npos ? "" : amount.substr(space + 1);
  const auto* const unit = std::ranges::find(kNamedUnits, name, &NamedUnit::name);
  if (unit == kNamedUnits.end())  // "500 years"
    return fmt::format("{} ({}-{})", amount, format_short_duration(range->low * time),
                       format_short_duration(range->high * time));
  const int decimals = point < space ? narrow<int>(space - point - 1) : 0;
  const auto end = [&](double factor) { return fmt::format("{:.{}f}", factor * time.value / unit->seconds, decimals); };
  return fmt::format("{} ({}-{})", amount, end(range->low), end(range->high));
}

std::string format_duration_beside(Seconds other, Seconds time) {
  constexpr double kFar = 50;
  const std::string beside = format_short_duration(other);
  const std::size_t space = beside.find(' ');
  const auto* const unit = space == std::string::npos
                               ? kNamedUnits.end()
                               : std::ranges::find(kNamedUnits, beside.substr(space + 1), &NamedUnit::name);
  const bool is_far = !(time.value * kFar > other.value && other.value * kFar > time.value);
  if (unit == kNamedUnits.end() || is_far) return format_short_duration(time);
  return fmt::format("{} {}", three_digits(time.value / unit->seconds), unit->name);
}

std::string range_text(Seconds low, Seconds high) {
  const std::string end = format_short_duration(high), first = format_short_duration(low);
  if (first == end) return first;
  const std::size_t space = end.find(' ');
  const auto* const unit = space == std::string::npos
                               ? kNamedUnits.end()
                               : std::ranges::find(kNamedUnits, end.substr(space + 1), &NamedUnit::name);
  if (unit == kNamedUnits.end()) return fmt::format("{} to {}", first, end);
  return fmt::format("{} {} to {}", three_digits(low.value / unit->seconds), unit->name, end);
}

std::string usd_with_range(double usd, const std::optional<AccuracyRange>& range) {
  if (!range) return format_usd(usd);
  constexpr double kWhole = 100;  // three digits are enough of an end
  const auto end = [&](double factor) {
    return factor * usd < kWhole ? format_usd(factor * usd) : "$" + format_grouped(std::llround(factor * usd));
  };
  return fmt::format("{} ({}-{})", format_usd(usd), end(range->low), end(range->high));
}

Ink ink_of(Fit fit) {
  switch (fit) {
    case Fit::No:
    case Fit::Unlikely: return Ink::Bad;
    case Fit::IfHost:
    case Fit::Tight: return Ink::Strong;
    case Fit::Yes: return Ink::Good;
  }
  return Ink::Plain;
}

std::string verdict_text(const StrategyEstimate& e) {
  if (e.fit == Fit::IfHost) return fmt::format("if host {}", format_bytes(e.host.needed()));
  const double percent = std::round(100 * e.chance);
  if (e.fit == Fit::No || percent > 99) return std::string(to_string(e.fit));
  return fmt::format("{} {:.0f} %", to_string(e.fit), percent);
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

namespace {

constexpr double kAir = 0.04;        // of the axis, at each end
constexpr double kNarrowest = 1.25;  // most over least: a single value still gets an axis

constexpr std::array<const char*, 7> kDecimal{"", "k", "M", "G", "T", "P", "E"};
constexpr std::array<const char*, 7> kBinary{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

std::string_view suffix_of(PlotUnit unit) {
  constexpr std::array<std::string_view, 4> kSuffixes{"FLOP", "FLOP/s", "B", "B/s"};
  return kSuffixes[std::size_t(unit)];
}

template <std::size_t N>
std::size_t step_of(double value, double base, const std::array<const char*, N>&) {
  const double steps = std::floor(std::log(value) / std::log(base) + 1e-9);
  return std::size_t(std::clamp(steps, 0.0, double(N - 1)));
}

/// Values of a grid that lie on the axis.
template <class Grid>
std::vector<AxisMark> marks_on(const LogAxis& axis, Grid grid) {
  std::vector<AxisMark> out;
  for (const double value : grid)
    if (value >= axis.least * (1 - 1e-9) && value <= axis.most * (1 + 1e-9))
      out.push_back({value, mark_label(value, axis.unit)});
  return out;
}

/// base^i for every `stride`th i.
std::vector<double> powers(double base, int stride, const LogAxis& axis) {
  std::vector<double> out;
  const int first = narrow<int>(std::lround(std::floor(std::log(axis.least) / std::log(base) / stride))) * stride;
  for (int i = first; std::pow(base, i) <= axis.most * (1 + 1e-9); i += stride) out.push_back(std::pow(base, i));
  return out;
}

std::vector<double> between(const std::vector<double>& decades, const std::vector<double>& factors) {
  std::vector<double> out;
  for (const double decade : decades)
    for (const double factor : factors) out.push_back(decade * factor);
  return out;
}

/// 1 to 10, `parts` to each 1.
std::vector<double> multiples(int parts) {
  std::vector<double> out;
  for (int i = parts; i < 10 * parts; ++i) out.push_back(double(i) / parts);
  return out;
}

/// From the finest grid to the coarsest.
std::vector<std::vector<double>> grids(const LogAxis& axis) {
  std::vector<std::vector<double>> out;
  if (axis.unit == PlotUnit::ByteCount) {
    for (const int stride : {1, 2, 5, 10, 20}) out.push_back(powers(2, stride, axis));
    return out;
  }
  const std::vector<double> decades = powers(10, 1, axis);
  for (const int parts : {10, 5, 2}) out.push_back(between(decades, multiples(parts)));
  out.push_back(between(decades, {1, 1.5, 2, 3, 4, 5, 6, 8}));
  out.push_back(between(decades, {1, 2, 5}));
  for (const int stride : {1, 2, 3, 6}) out.push_back(powers(10, stride, axis));
  return out;
}

}  // namespace

double LogAxis::share(double value) const {
  return std::clamp(std::log(std::max(value, 1e-300) / least) / std::log(most / least), 0.0, 1.0);
}

LogAxis axis_of(const std::vector<double>& values, PlotUnit unit) {
  LogAxis axis{.unit = unit};
  if (values.empty()) return axis;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double middle = std::sqrt(*low * *high), ratio = std::max(*high / *low, kNarrowest);
  const double half = std::pow(ratio, 0.5 + kAir);
  return {middle / half, middle * half, unit};
}

std::vector<AxisMark> axis_marks(const LogAxis& axis, int max_marks) {
  std::vector<AxisMark> out;
  for (const std::vector<double>& grid : grids(axis)) {
    out = marks_on(axis, grid);
    if (narrow<int>(out.size()) <= max_marks) break;
  }
  if (narrow<int>(out.size()) > max_marks) out.resize(std::size_t(std::max(0, max_marks)));
  return out;
}

std::string mark_label(double value, PlotUnit unit) {
  if (unit == PlotUnit::ByteCount) {
    const std::size_t step = step_of(value, 1024, kBinary);
    return fmt::format("{:.3g} {}", value / std::pow(1024, double(step)), kBinary[step]);
  }
  const std::size_t step = step_of(value, 1000, kDecimal);
  return fmt::format("{:.3g} {}{}", value / std::pow(1000, double(step)), kDecimal[step], suffix_of(unit));
}

}  // namespace gpuplan
