#include "validate/ranges.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
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

bool is_in(const Ratio& ratio, const std::string& cell) {
  return std::find(ratio.cells.begin(), ratio.cells.end(), cell) != ratio.cells.end();
}

std::vector<Ratio> ratios_in(const std::vector<Ratio>& ratios, const std::string& cell) {
  return filter(ratios, [&](const Ratio& r) { return is_in(r, cell); });
}

/// Ratios with what each counts in a range.
struct Mixture {
  std::vector<double> values, weights;

  void add(const std::vector<Ratio>& ratios, double share) {
    std::vector<PointPlace> places;
    for (const Ratio& r : ratios) {
      values.push_back(r.measured_over_predicted);
      places.push_back(r.place);
    }
    for (const double weight : macro_weights(places)) weights.push_back(share * weight);
  }
};

Mixture mixture_of(const std::vector<Ratio>& ratios, const std::vector<std::string>& cells) {
  Mixture mixture;
  double rest = 1;
  for (const std::string& cell : cells) {
    const auto own = ratios_in(ratios, cell);
    if (own.empty()) continue;
    const auto sources = double(num_sources(own));
    const double share = &cell == &cells.back() ? 1 : sources / (sources + kSourcesOfParent);
    mixture.add(own, rest * share);
    rest *= 1 - share;
  }
  return mixture;
}

/// What allocators reserve counts as the process, as in the tables of errors.
Figure figure_of(MemoryTier tier) { return tier == MemoryTier::Tensors ? Figure::Tensors : Figure::Process; }

/// The comparison of `result` that is about `figure`, if any.
const Comparison* comparison_of(const PointResult& result, Figure figure) {
  if (figure == Figure::StepTime) return result.point->kind == PointKind::Speed && result.own ? &*result.own : nullptr;
  for (const auto* part : {&result.allocated, &result.process})
    if (*part && (*part)->tier && figure_of(*(*part)->tier) == figure) return &**part;
  return nullptr;
}

}  // namespace

/// Stretched to hold 1: the prediction itself is inside its range.
AccuracyRange derive_range(const std::vector<Ratio>& ratios, const std::vector<std::string>& cells, double tail,
                           double widening) {
  const auto own = ratios_in(ratios, cells.front());
  AccuracyRange out{.num_points = own.size(),
                    .num_sources = num_sources(own),
                    .tail = tail,
                    .widening = widening,
                    .cell = cells.front()};
  const Mixture mixture = mixture_of(ratios, cells);
  if (mixture.values.empty()) return out;
  const auto end = [&](double share) {
    return std::pow(weighted_quantile(mixture.values, mixture.weights, share), widening);
  };
  // outwards to three decimals: what is stored is what is used
  out.low = std::min(1.0, std::floor(end(tail) * 1000) / 1000);
  out.high = std::max(1.0, std::ceil(end(1 - tail) * 1000) / 1000);
  return out;
}

double left_out_coverage(const std::vector<Ratio>& ratios, const std::vector<std::string>& cells, double tail,
                         double widening, const std::string& judged) {
  const auto own = ratios_in(ratios, judged);
  std::set<std::string> sources;
  for (const Ratio& r : own) sources.insert(r.place.source);
  std::size_t inside = 0;
  for (const std::string& source : sources) {
    const auto rest = filter(ratios, [&](const Ratio& r) { return r.place.source != source; });
    const AccuracyRange others = derive_range(rest, cells, tail, widening);
    for (const Ratio& r : own) inside += r.place.source == source && is_inside(r.measured_over_predicted, others);
  }
  return own.empty() ? 0 : double(inside) / double(own.size());
}

AccuracyRange fit_range(const std::vector<Ratio>& ratios, const std::vector<std::string>& cells) {
  constexpr double kStep = 0.01, kWiden = 1.05, kWidest = 10, kLargestTail = 0.20;
  const auto coverage = [&](double tail, double widening) {
    return left_out_coverage(ratios, cells, tail, widening, cells.front());
  };
  const auto moved = [](double tail, double by) { return std::max(0.0, std::round((tail + by) / kStep) * kStep); };
  double tail = kUsualTail, widening = 1;
  while (coverage(tail, widening) > kMostCoverage && tail < kLargestTail - kStep / 2 &&
         coverage(moved(tail, kStep), widening) >= kWantedCoverage)
    tail = moved(tail, kStep);
  while (coverage(tail, widening) < kWantedCoverage && widening < kWidest)
    if (tail > kStep / 2)
      tail = moved(tail, -kStep);
    else
      widening = std::round(widening * kWiden * 1000) / 1000;
  AccuracyRange out = derive_range(ratios, cells, tail, widening);
  out.coverage = std::round(coverage(tail, widening) * 1000) / 1000;
  return out;
}

FigureAccuracy fit_ranges(const std::vector<Ratio>& ratios) {
  std::map<std::string, std::vector<std::string>> chains;  // of every cell, from itself to all
  for (const Ratio& r : ratios)
    for (std::size_t i = 0; i < r.cells.size(); ++i)
      chains.try_emplace(r.cells[i], r.cells.begin() + std::ptrdiff_t(i), r.cells.end());
  FigureAccuracy out;
  for (const auto& [cell, chain] : chains)
    if (chain.size() == 1 || num_sources(ratios_in(ratios, cell)) >= kLeastSources)
      out.cells.push_back(fit_range(ratios, chain));
  return out;
}

std::vector<Ratio> ratios_of(const std::vector<PointResult>& results, Figure figure) {
  std::vector<Ratio> out;
  for (const PointResult& r : results) {
    if (r.status != PointStatus::Scored) continue;
    const Comparison* c = comparison_of(r, figure);
    if (!c) continue;
    const double ratio = figure == Figure::StepTime ? std::exp(-log_time_error(*c)) : c->measured / c->predicted;
    out.push_back({cells_of(figure, r.kind), {r.point->source, r.point->group}, ratio});
  }
  return out;
}

namespace {

/// Records of full training that pre-training points use and no others do.
std::vector<std::string> pretraining_frameworks(const std::vector<PointResult>& results) {
  std::set<std::string> found, others;
  for (const PointResult& r : results)
    if (r.status == PointStatus::Scored) (r.kind.is_pretraining ? found : others).insert(r.framework);
  std::vector<std::string> out;
  std::set_difference(found.begin(), found.end(), others.begin(), others.end(), std::back_inserter(out));
  return out;
}

}  // namespace

Accuracy fit_accuracy(const std::vector<PointResult>& results) {
  Accuracy out;
  for (int i = 0; i < kNumFigures; ++i) {
    const auto ratios = ratios_of(results, Figure(i));
    if (num_sources(ratios) > kLeastSources) out.figures.emplace_back(Figure(i), fit_ranges(ratios));
  }
  out.pretraining_frameworks = pretraining_frameworks(results);
  return out;
}

}  // namespace gpuplan
