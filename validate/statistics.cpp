#include "validate/statistics.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/statistics.h"

namespace gpuplan {

std::vector<double> macro_weights(std::span<const PointPlace> places) {
  std::map<std::string, std::map<std::string, double>> counts;
  for (const PointPlace& place : places) ++counts[place.source][place.group];
  std::vector<double> weights;
  for (const PointPlace& place : places) {
    const auto& groups = counts.at(place.source);
    weights.push_back(1 / (double(counts.size()) * double(groups.size()) * groups.at(place.group)));
  }
  return weights;
}

ErrorSummary summarise(std::span<const double> errors, std::span<const PointPlace> places) {
  ErrorSummary s{.num_points = errors.size()};
  if (errors.empty()) return s;
  const std::vector<double> macro = macro_weights(places), alike(errors.size(), 1.0);
  std::vector<double> sizes;
  for (const double e : errors) sizes.push_back(std::abs(e));
  std::map<std::string, int> sources;
  for (const PointPlace& place : places) sources[place.source] = 1;
  s.num_sources = sources.size();
  s.median = weighted_quantile(sizes, macro, 0.5);
  s.p90 = weighted_quantile(sizes, macro, 0.9);
  s.median_signed = weighted_quantile(errors, macro, 0.5);
  s.pooled_median = weighted_quantile(sizes, alike, 0.5);
  s.pooled_p90 = weighted_quantile(sizes, alike, 0.9);
  s.pooled_median_signed = weighted_quantile(errors, alike, 0.5);
  s.worst_at = std::size_t(std::max_element(sizes.begin(), sizes.end()) - sizes.begin());
  s.worst = errors[s.worst_at];
  return s;
}

}  // namespace gpuplan
