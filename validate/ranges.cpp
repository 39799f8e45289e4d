#include "validate/ranges.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/statistics.h"
#include "validate/comparison.h"
#include "validate/point.h"

namespace gpuplan {
namespace {

std::size_t num_sources(const std::vector<Ratio>& ratios) {
  std::set<std::string> sources;
  for (const Ratio& r : ratios) sources.insert(r.place.source);
  return sources.size();
}

template <class Keep>
std::vector<Ratio> filter(const std::vector<Ratio>& ratios, Keep keep) {
  std::vector<Ratio> out;
  std::copy_if(ratios.begin(), ratios.end(), std::back_inserter(out), keep);
  return out;
}

bool is_inside(double value, const AccuracyRange& range) { return value >= range.low && value <= range.high; }

Method method_of(const Point& point) {
  for (const PointMethod& row : kPointMethods)
    if (row.name == point.method) return row.method;
  return Method::Full;
}

/// The comparison of `result` that is about `figure`, if any.
const Comparison* comparison_of(const PointResult& result, Figure figure) {
  if (figure == Figure::StepTime) return result.point->kind == PointKind::Speed && result.own ? &*result.own : nullptr;
  for (const auto* part : {&result.allocated, &result.process})
    if (*part && (*part)->tier && int(*(*part)->tier) == int(figure)) return &**part;
  return nullptr;
}

double width(const AccuracyRange& range) { return std::log(range.high / range.low); }

}  // namespace

/// Stretched to hold 1: the prediction itself is inside its range.
AccuracyRange derive_range(const std::vector<Ratio>& ratios, double tail, double widening) {
  AccuracyRange out{
      .num_points = ratios.size(), .num_sources = num_sources(ratios), .tail = tail, .widening = widening};
  if (ratios.empty()) return out;
  std::vector<double> values;
  std::vector<PointPlace> places;
  for (const Ratio& r : ratios) {
    values.push_back(r.measured_over_predicted);
    places.push_back(r.place);
  }
  const auto weights = macro_weights(places);
  // outwards to three decimals: what is stored is what is used
  out.low = std::min(1.0, std::floor(std::pow(weighted_quantile(values, weights, tail), widening) * 1000) / 1000);
  out.high = std::max(1.0, std::ceil(std::pow(weighted_quantile(values, weights, 1 - tail), widening) * 1000) / 1000);
  return out;
}

double left_out_coverage(const std::vector<Ratio>& ratios, double tail, double widening) {
  std::set<std::string> sources;
  for (const Ratio& r : ratios) sources.insert(r.place.source);
  std::size_t inside = 0;
  for (const std::string& source : sources) {
    const AccuracyRange others =
        derive_range(filter(ratios, [&](const Ratio& r) { return r.place.source != source; }), tail, widening);
    for (const Ratio& r : ratios) inside += r.place.source == source && is_inside(r.measured_over_predicted, others);
  }
  return ratios.empty() ? 0 : double(inside) / double(ratios.size());
}

AccuracyRange fit_range(const std::vector<Ratio>& ratios) {
  constexpr double kStep = 0.01, kWiden = 1.05, kWidest = 10;
  double tail = kUsualTail, widening = 1;
  while (left_out_coverage(ratios, tail, widening) < kWantedCoverage && widening < kWidest)
    if (tail > kStep / 2)
      tail = std::max(0.0, std::round((tail - kStep) / kStep) * kStep);
    else
      widening = std::round(widening * kWiden * 1000) / 1000;
  AccuracyRange out = derive_range(ratios, tail, widening);
  out.coverage = std::round(left_out_coverage(ratios, tail, widening) * 1000) / 1000;
  return out;
}

FigureAccuracy fit_ranges(const std::vector<Ratio>& ratios) {
  FigureAccuracy out{.all = fit_range(ratios)};
  std::vector<Ratio> others = ratios;  // judged by the range of all
  double inside = 0;
  for (const Method method : {Method::Full, Method::Lora, Method::Qlora}) {
    const auto own = filter(ratios, [&](const Ratio& r) { return r.method == method; });
    if (own.size() < kLeastPoints || num_sources(own) < kLeastSources) continue;
    const AccuracyRange range = fit_range(own);
    if (range.widening > 1 || width(range) > width(out.all)) continue;
    out.by_method.emplace_back(method, range);
    others = filter(others, [&](const Ratio& r) { return r.method != method; });
    inside += range.coverage * double(own.size());
  }
  for (const Ratio& r : others) {
    const auto rest = filter(ratios, [&](const Ratio& x) { return x.place.source != r.place.source; });
    inside += is_inside(r.measured_over_predicted, derive_range(rest, out.all.tail, out.all.widening));
  }
  out.coverage = ratios.empty() ? 0 : std::round(inside / double(ratios.size()) * 1000) / 1000;
  return out;
}

std::vector<Ratio> ratios_of(const std::vector<PointResult>& results, Figure figure) {
  std::vector<Ratio> out;
  for (const PointResult& r : results) {
    if (r.status != PointStatus::Scored) continue;
    const Comparison* c = comparison_of(r, figure);
    if (!c) continue;
    const double ratio = figure == Figure::StepTime ? std::exp(-log_time_error(*c)) : c->measured / c->predicted;
    out.push_back({method_of(*r.point), {r.point->source, r.point->group}, ratio});
  }
  return out;
}

Accuracy fit_accuracy(const std::vector<PointResult>& results) {
  Accuracy out;
  for (int i = 0; i < kNumFigures; ++i) {
    const auto ratios = ratios_of(results, Figure(i));
    if (num_sources(ratios) > kLeastSources) out.figures.emplace_back(Figure(i), fit_ranges(ratios));
  }
  return out;
}

}  // namespace gpuplan
