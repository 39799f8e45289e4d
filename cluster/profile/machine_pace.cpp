#include "cluster/profile/machine_pace.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/names.h"

namespace gpuplan {
namespace {

constexpr std::string_view kCalibrated = "calibrated";
constexpr double kWorthTelling = 0.02, kMuch = 1.5;

std::string_view words_of(const PaceField& field) {
  if (field.member == &MachinePace::products) return "matrix products";
  if (field.member == &MachinePace::thin_products) return "thin products";
  return field.name;
}

std::string comparison(double factor) {
  if (factor >= kMuch) return fmt::format("{:.1f} times as slow", factor);
  if (factor <= 1 / kMuch) return fmt::format("{:.1f} times as fast", 1 / factor);
  return fmt::format("{:.0f} % {}", 100 * std::abs(factor - 1), factor > 1 ? "slower" : "faster");
}

}  // namespace

bool MachinePace::is_as_calibrated() const {
  return std::all_of(kPaceFields.begin(), kPaceFields.end(),
                     [&](const PaceField& field) { return this->*field.member == 1; });
}

MachinePace mean_of(const MachinePace& a, const MachinePace& b) {
  MachinePace mean;
  for (const PaceField& field : kPaceFields) mean.*field.member = std::sqrt(a.*field.member * b.*field.member);
  return mean;
}

double change_between(const MachinePace& a, const MachinePace& b) {
  double most = 1;
  for (double MachinePace::*const kind : {&MachinePace::products, &MachinePace::thin_products, &MachinePace::attention})
    most = std::max({most, a.*kind / b.*kind, b.*kind / a.*kind});
  return most - 1;
}

MachinePace parse_pace(std::string_view text, std::string_view where) {
  MachinePace pace;
  if (text == kCalibrated) return pace;
  std::vector<std::string> names;
  for (const PaceField& field : kPaceFields) names.emplace_back(field.name);
  for (const std::string& part : split(std::string(text), ',')) {
    const std::size_t equals = part.find('=');
    const std::string name{trim(part.substr(0, equals))};
    const auto field =
        std::find_if(kPaceFields.begin(), kPaceFields.end(), [&](const PaceField& f) { return f.name == name; });
    if (field == kPaceFields.end() || equals == std::string::npos)
      throw InputError(
          std::string(where), fmt::format("'{}' is not KIND=FACTOR", part),
          did_you_mean(name, names,
                       fmt::format("a list such as products=1.1,memory=0.9, of {}", fmt::join(names, ", "))));
    const double factor = parse_number(part.substr(equals + 1), std::string(where));
    if (!(factor >= 1 / kMostPace && factor <= kMostPace))
      throw InputError(std::string(where), fmt::format("{} is no factor on a time", factor),
                       fmt::format("from {:g} to {:g}; 1.1 takes a tenth longer", 1 / kMostPace, kMostPace));
    pace.*field->member = factor;
  }
  return pace;
}

std::string to_string(const MachinePace& pace) {
  std::vector<std::string> parts;
  for (const PaceField& field : kPaceFields)
    if (pace.*field.member != 1) parts.push_back(fmt::format("{}={:.4g}", field.name, pace.*field.member));
  return parts.empty() ? std::string(kCalibrated) : fmt::format("{}", fmt::join(parts, ","));
}

std::string describe(const MachinePace& pace) {
  std::vector<std::string> parts;
  for (const PaceField& field : kPaceFields)
    if (std::abs(pace.*field.member - 1) >= kWorthTelling)
      parts.push_back(fmt::format("{} {}", words_of(field), comparison(pace.*field.member)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace gpuplan
