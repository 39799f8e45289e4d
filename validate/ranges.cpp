#include "validate/ranges.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include <boost/math/distributions/students_t.hpp>

#include "base/statistics.h"
#include "validate/comparison.h"
#include "validate/point.h"

namespace gpuplan {
namespace {

constexpr double kFarOut = 3;  // deviations

/// A measurement as ln(measured / predicted), and its weight: those of a source add up to 1.
struct Sample {
  double value{}, weight{};
  const std::string* source{};
};
using Samples = std::vector<Sample>;

template <class Keep>
Samples samples_where(const std::vector<Ratio>& ratios, Keep keep) {
  std::vector<PointPlace> places;
  Samples out;
  std::set<std::string> sources;
  for (const Ratio& r : ratios) {
    if (!keep(r)) continue;
    places.push_back(r.place);
    sources.insert(r.place.source);
    out.push_back({std::log(r.measured_over_predicted), 0, &r.place.source});
  }
  const std::vector<double> weights = macro_weights(places);  // that add up to 1 over all sources
  for (std::size_t i = 0; i < out.size(); ++i) out[i].weight = weights[i] * double(sources.size());
  return out;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Samples samples_in(const std::vector<Ratio>& ratios, const std::string& cell) {
  return samples_where(ratios, [&](const Ratio& r) { return has(r.cells, cell); });
}

Samples without(const Samples& samples, const std::set<std::string>& sources) {
  Samples out;
  std::copy_if(samples.begin(), samples.end(), std::back_inserter(out),
               [&](const Sample& s) { return !sources.contains(*s.source); });
  return out;
}

std::size_t num_sources(const Samples& samples) {
  std::set<std::string> sources;
  for (const Sample& s : samples) sources.insert(*s.source);
  return sources.size();
}

double median_of(const Samples& samples, double about = 0, bool is_absolute = false) {
  std::vector<double> values, weights;
  for (const Sample& s : samples) {
    values.push_back(is_absolute ? std::abs(s.value - about) : s.value);
    weights.push_back(s.weight);
  }
  return weighted_quantile(values, weights, 0.5);
}

/// The mean square about `mean`, of deviations up to `most`.
double variance_of(const Samples& samples, double mean, double most) {
  double sum = 0, weight = 0;
  for (const Sample& s : samples) {
    const double deviation = std::min(std::abs(s.value - mean), most);
    sum += s.weight * deviation * deviation;
    weight += s.weight;
  }
  return sum / weight;
}

/// ln(measured / predicted) of a new source's runs, and how many sources tell it.
struct Spread {
  double mean = 0, variance = 0, sources = 0;
};

Spread spread_of_all(const Samples& samples) {
  constexpr double kDeviation = 1.4826;  // of normal noise over its median |error|
  const double mean = median_of(samples);
  const double most = kFarOut * kDeviation * median_of(samples, mean, true);
  return {mean, variance_of(samples, mean, most), double(num_sources(samples))};
}

Spread pooled(const Samples& samples, const Spread& parent) {
  const auto n = double(num_sources(samples));
  const double all = n + kSourcesOfParent;
  Spread out{.sources = all};
  out.mean = (n * median_of(samples) + kSourcesOfParent * parent.mean) / all;
  const double own = variance_of(samples, out.mean, kFarOut * std::sqrt(parent.variance));
  out.variance = (n * own + kSourcesOfParent * parent.variance) / all;
  return out;
}

/// Levels from the cell to all.
Spread spread_of(const std::vector<Samples>& levels) {
  Spread out;
  for (auto level = levels.rbegin(); level != levels.rend(); ++level)
    if (!level->empty()) out = level == levels.rbegin() ? spread_of_all(*level) : pooled(*level, out);
  return out;
}

struct Ends {
  double low = 0, high = 0;  // low <= 0 <= high
  bool hold(double value) const { return value >= low && value <= high; }
};

Ends ends_of(const Spread& spread) {
  if (spread.sources <= 0) return {};
  // In double alone: tables of long double are filled at every start of the program, and valgrind has no long double.
  using Double = boost::math::policies::policy<boost::math::policies::promote_double<false>>;
  const boost::math::students_t_distribution<double, Double> distribution(std::max(1.0, spread.sources - 1));
  const double half = boost::math::quantile(boost::math::complement(distribution, kTail)) *
                      std::sqrt(spread.variance * (1 + 1 / spread.sources));
  return {std::min(0.0, spread.mean - half), std::max(0.0, spread.mean + half)};
}

AccuracyRange range_of(const Spread& spread, const Samples& own, const std::string& cell) {
  const Ends ends = ends_of(spread);
  // outwards to three decimals: what is stored is what is used
  return {.low = std::floor(std::exp(ends.low) * 1000) / 1000,
          .high = std::ceil(std::exp(ends.high) * 1000) / 1000,
          .num_points = own.size(),
          .num_sources = num_sources(own),
          .cell = cell};
}

std::vector<Samples> levels_of(const std::vector<Ratio>& ratios, const std::vector<std::string>& cells) {
  std::vector<Samples> out;
  for (const std::string& cell : cells) out.push_back(samples_in(ratios, cell));
  return out;
}

/// Figure of a tier; bytes that allocators reserve count as the process, as in the tables of errors.
Figure figure_of(MemoryTier tier) { return tier == MemoryTier::Tensors ? Figure::Tensors : Figure::Process; }

/// The comparison of `result` that is about `figure`, if any.
const Comparison* comparison_of(const PointResult& result, Figure figure) {
  if (figure == Figure::StepTime) return result.point->kind == PointKind::Speed && result.own ? &*result.own : nullptr;
  for (const auto* part : {&result.allocated, &result.process})
    if (*part && (*part)->tier && figure_of(*(*part)->tier) == figure) return &**part;
  return nullptr;
}

}  // namespace

AccuracyRange derive_range(const std::vector<Ratio>& ratios, const std::vector<std::string>& cells) {
  const std::vector<Samples> levels = levels_of(ratios, cells);
  return range_of(spread_of(levels), levels.front(), cells.front());
}

double left_out_coverage(const std::vector<Ratio>& ratios, const std::vector<std::string>& cells,
                         const std::string& judged, int num_left_out) {
  const std::vector<Samples> levels = levels_of(ratios, cells);
  const Samples own = samples_in(ratios, judged);
  std::set<std::string> sources, all;
  for (const Sample& s : own) sources.insert(*s.source);
  for (const Sample& s : levels.back()) all.insert(*s.source);
  double covered = 0;
  for (const std::string& source : sources) {
    double inside = 0, asked = 0;
    for (const std::string& other : num_left_out > 1 ? all : std::set{source}) {
      if (num_left_out > 1 && other == source) continue;
      std::vector<Samples> rest;
      for (const Samples& level : levels) rest.push_back(without(level, {source, other}));
      const Ends others = ends_of(spread_of(rest));
      for (const Sample& s : own) {
        if (*s.source != source) continue;
        inside += others.hold(s.value) ? s.weight : 0;
        asked += s.weight;
      }
    }
    covered += inside / asked / double(sources.size());
  }
  return covered;
}

namespace {

/// A kind of run that nobody measured brings an offset beside its source's. Its variance is that of the measured kinds'
/// offsets, with kSourcesOfParent kinds more whose offsets vary as those of sources do.
Spread spread_of_unlike(const std::vector<Samples>& kinds, const Samples& all) {
  Spread out = spread_of_all(all);
  std::map<std::string, Samples> by_source;
  for (const Sample& s : all) by_source[*s.source].push_back(s);
  double between = 0, offsets = 0;
  for (const auto& [source, samples] : by_source) {
    const double offset = median_of(samples) - out.mean;
    between += offset * offset / double(by_source.size());
  }
  for (const Samples& kind : kinds) {
    const double offset = median_of(kind) - out.mean;
    offsets += offset * offset;
  }
  out.variance += (offsets + kSourcesOfParent * between) / (double(kinds.size()) + kSourcesOfParent);
  return out;
}

/// Ranges of the kinds of models that were measured, and of a run unlike any.
void add_kinds(FigureAccuracy& out, const std::vector<Ratio>& ratios) {
  const Samples all = samples_where(ratios, [](const Ratio& r) { return !r.cells.empty(); });
  std::vector<Samples> measured;
  std::vector<std::string> names;
  for (const std::string_view kind : kModelKinds) {
    Samples own = samples_where(ratios, [&](const Ratio& r) { return has(r.traits, std::string(kind)); });
    if (own.empty()) continue;
    measured.push_back(std::move(own));
    names.emplace_back(kind);
  }
  const Spread unlike = spread_of_unlike(measured, all);
  for (std::size_t i = 0; i < names.size(); ++i)
    out.cells.push_back(range_of(pooled(measured[i], unlike), measured[i], names[i]));
  out.cells.push_back(range_of(unlike, {}, std::string(kUnlike)));
}

}  // namespace

FigureAccuracy fit_ranges(const std::vector<Ratio>& ratios) {
  std::map<std::string, std::vector<std::string>> chains;  // of every cell, from itself to all
  std::set<std::string> traits;
  for (const Ratio& r : ratios) {
    traits.insert(r.traits.begin(), r.traits.end());
    for (std::size_t i = 0; i < r.cells.size(); ++i)
      chains.try_emplace(r.cells[i], r.cells.begin() + std::ptrdiff_t(i), r.cells.end());
  }
  FigureAccuracy out;
  for (const auto& [cell, chain] : chains) {
    if (chain.size() > 1 && num_sources(samples_in(ratios, cell)) < kLeastSources) continue;
    AccuracyRange& range = out.cells.emplace_back(derive_range(ratios, chain));
    const auto rounded = [](double share) { return std::round(share * 1000) / 1000; };
    range.coverage = rounded(left_out_coverage(ratios, chain, cell));
    range.coverage_of_pairs = rounded(left_out_coverage(ratios, chain, cell, 2));
  }
  add_kinds(out, ratios);
  out.measured_traits.assign(traits.begin(), traits.end());
  return out;
}

std::vector<Ratio> ratios_of(const std::vector<PointResult>& results, Figure figure) {
  std::vector<Ratio> out;
  for (const PointResult& r : results) {
    const bool is_apart = r.status == PointStatus::Skipped && has(r.kind.traits, r.heading);
    if (r.status != PointStatus::Scored && !is_apart) continue;
    const Comparison* c = comparison_of(r, figure);
    if (!c) continue;
    const double ratio = figure == Figure::StepTime ? std::exp(-log_time_error(*c)) : c->measured / c->predicted;
    out.push_back({is_apart ? std::vector<std::string>{} : cells_of(figure, r.kind),
                   {r.point->source, r.point->group},
                   ratio,
                   r.kind.traits});
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
    const Samples all = samples_where(ratios, [](const Ratio& r) { return !r.cells.empty(); });
    if (num_sources(all) > kLeastSources) out.figures.emplace_back(Figure(i), fit_ranges(ratios));
  }
  out.pretraining_frameworks = pretraining_frameworks(results);
  return out;
}

}  // namespace gpuplan
