// Numbers that stand alone: latencies, copies, overheads, and what a collective does to a product beside it.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "fit/line.h"
#include "fit/make_profile.h"

namespace gpuplan {
namespace {

using Cases = std::map<std::pair<std::string, std::int64_t>, std::vector<Sample>>;  // by name and ranks

Cases cases_of(std::span<const Sample> samples, ProbeFamily family, std::string (*name)(const Probe&)) {
  Cases cases;
  for (const Sample& s : samples)
    if (is_usable(s, family)) cases[{name(s.probe), s.probe.num_ranks}].push_back(s);
  return cases;
}

/// Median of samples of one thing, in log space. The interval is the samples' own where there is one, else the order
/// statistics'.
ScalarFit middle(std::string name, std::string unit, std::int64_t num_ranks, const std::vector<double>& values,
                 Fitted alone) {
  ScalarFit fit{.name = std::move(name), .unit = std::move(unit), .num_ranks = num_ranks};
  const double median = quantile(values, 0.5);
  std::vector<double> errors;
  for (const double value : values)
    errors.push_back(value > 0 ? std::log(median / value) : 0);  // no overhead at all is 0 B
  const double deviation = robust_deviation(errors);
  // The median of n has the deviation 1.25 s / sqrt(n) when errors are normal.
  const double wide = 1.96 * 1.25 * deviation / std::sqrt(double(values.size()));
  fit.value = {median, std::min(alone.low, median * std::exp(-wide)), std::max(alone.high, median * std::exp(wide))};
  fit.quality = fit_quality(errors, {}, std::max(deviation, 0.002));
  return fit;
}

/// Samples whose figure is the number itself.
std::vector<ScalarFit> plain(const Cases& cases, const std::string& unit) {
  std::vector<ScalarFit> fits;
  for (const auto& [key, own] : cases) {
    std::vector<double> values;
    Fitted alone{};
    for (const Sample& s : own) values.push_back(s.median);
    const double median = quantile(values, 0.5);
    const bool has_interval = own.size() == 1 && own[0].low > 0 && own[0].high >= own[0].low;
    alone = has_interval ? Fitted{median, own[0].low, own[0].high} : Fitted{median, median, median};
    fits.push_back(middle(key.first, unit, key.second, values, alone));
  }
  return fits;
}

std::vector<ScalarFit> copies(const Cases& cases) {
  std::vector<ScalarFit> fits;
  for (const auto& [key, own] : cases) {
    std::vector<LinePoint> points;
    for (const Sample& s : own) points.push_back({double(s.probe.bytes.count), s.median, noise_of(s)});
    const auto line = fit_line(points);
    if (!line) continue;
    fits.push_back({.name = "copy " + key.first,
                    .unit = "B/s",
                    .num_ranks = key.second,
                    .value = line->rate,
                    .quality = line->quality});
    fits.push_back({.name = "copy-latency " + key.first,
                    .unit = "s",
                    .num_ranks = key.second,
                    .value = line->launch,
                    .quality = line->quality});
  }
  return fits;
}

/// Factor by which a product takes longer under a collective: the middle over shapes and sizes.
std::vector<ScalarFit> slow_downs(const Cases& cases) {
  std::vector<ScalarFit> fits;
  for (const auto& [key, own] : cases) {
    std::vector<double> ratios;
    for (const Sample& s : own)
      if (s.overlapped > 0) ratios.push_back(s.overlapped);
    if (ratios.empty()) continue;
    const double median = quantile(ratios, 0.5);
    fits.push_back(middle(key.first, "", key.second, ratios, {median, median, median}));
  }
  return fits;
}

}  // namespace

std::vector<ScalarFit> fit_scalars(std::span<const Sample> samples) {
  const Cases dispatch = cases_of(samples, ProbeFamily::Dispatch,
                                  [](const Probe& p) { return "dispatch " + std::string(to_string(p.dispatch)); });
  const Cases copy =
      cases_of(samples, ProbeFamily::Copy, [](const Probe& p) { return std::string(to_string(p.path)); });
  const Cases overhead = cases_of(samples, ProbeFamily::Overhead,
                                  [](const Probe& p) { return "overhead " + std::string(to_string(p.overhead)); });
  const Cases overlap = cases_of(samples, ProbeFamily::Overlap,
                                 [](const Probe& p) { return "overlap " + std::string(to_string(p.type)); });
  std::vector<ScalarFit> fits = plain(dispatch, "s");
  for (auto& more : {copies(copy), plain(overhead, "B"), slow_downs(overlap)})
    fits.insert(fits.end(), more.begin(), more.end());
  return fits;
}

}  // namespace gpuplan
