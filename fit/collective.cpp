// Curves of collectives: alpha + S / B in up to four ranges of size. Where ranges end is found by dynamic programming,
// how many there are by the Bayesian information criterion.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "fit/correction.h"
#include "fit/make_profile.h"
#include "fit/quality.h"

namespace gpuplan {
namespace {

constexpr std::size_t kMostSegments = 4, kLeastSizes = 3;           // sizes of its own that a segment needs
constexpr double kFirstScale = 0.05, kLeastCollectiveNoise = 0.01;  // relative noise of collectives
constexpr double kParametersPerSegment = 3;                         // alpha, bandwidth, where it starts

/// Samples of one curve, sorted by size; `sizes` are the distinct ones and `first[i]` the first sample of size i.
struct CurveSamples {
  std::vector<Bytes> message, sizes;
  std::vector<double> time, noise;
  std::vector<std::size_t> size_of, first;
};

CurveSamples sorted(std::vector<Sample> samples) {
  std::sort(samples.begin(), samples.end(), [](const Sample& a, const Sample& b) {
    return std::tuple(a.probe.bytes, a.median) < std::tuple(b.probe.bytes, b.median);
  });
  CurveSamples out;
  for (const Sample& s : samples) {
    if (out.sizes.empty() || out.sizes.back() != s.probe.bytes) {
      out.sizes.push_back(s.probe.bytes);
      out.first.push_back(out.message.size());
    }
    out.size_of.push_back(out.sizes.size() - 1);
    out.message.push_back(s.probe.bytes);
    out.time.push_back(s.median);
    out.noise.push_back(noise_of(s));
  }
  out.first.push_back(out.message.size());
  return out;
}

/// Samples of sizes [begin, end) that `points` (sorted) holds.
std::vector<std::size_t> within(const CurveSamples& all, std::span<const std::size_t> points, std::size_t begin,
                                std::size_t end) {
  std::vector<std::size_t> out;
  for (const std::size_t point : points)
    if (all.size_of[point] >= begin && all.size_of[point] < end) out.push_back(point);
  return out;
}

FitProblem line_problem(const CurveSamples& all, std::span<const std::size_t> points) {
  double least_time = std::numeric_limits<double>::max(), most_rate = 0;
  for (const std::size_t point : points) {
    least_time = std::min(least_time, all.time[point]);
    most_rate = std::max(most_rate, double(all.message[point].count) / all.time[point]);
  }
  return {.parameters = {{.usual = 0.5 * least_time, .spread = 2}, {.usual = 1.5 * most_rate, .spread = 2}},
          .measured = all.time,
          .noise = all.noise,
          .model = [&all](std::span<const double> p) {
            std::vector<double> times;
            times.reserve(all.message.size());
            for (const Bytes message : all.message) times.push_back(p[0] + double(message.count) / p[1]);
            return times;
          }};
}

/// Segments over sizes, each [begin, end), and what they cost in negative log likelihood.
struct Cut {
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  double cost = std::numeric_limits<double>::infinity();
};

/// Cost of a segment's own samples under noise of `scale`; an outlier costs no more than a fixed amount.
double cost_of(const FitSolution& line, std::span<const std::size_t> points, double scale) {
  double cost = 0;
  for (const std::size_t point : points) cost += tukey_cost(line.errors[point] / scale, kTukey);
  return cost;
}

class Segmentation {
 public:
  Segmentation(const CurveSamples& all, std::span<const std::size_t> points) : all_(all), points_(points) {
    for (const std::size_t point : points)
      if (sizes_.empty() || sizes_.back() != all.size_of[point]) sizes_.push_back(all.size_of[point]);
  }

  /// Best by BIC. The noise is what the freest cut leaves, so that a jump between protocols does not count as noise.
  CollectiveCurve best() {
    const std::size_t most = std::clamp<std::size_t>(sizes_.size() / kLeastSizes, 1, kMostSegments);
    double scale = kFirstScale;
    for (int round = 0; round < 2; ++round) scale = noise(cut(most, scale));
    Cut chosen;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t count = 1; count <= most; ++count) {
      Cut other = cut(count, scale);
      const double criterion =
          2 * other.cost + kParametersPerSegment * double(count) * std::log(double(points_.size()));
      if (criterion < least) chosen = std::move(other), least = criterion;
    }
    return curve(chosen);
  }

 private:
  /// `ranges` count in the sizes at hand; fits see one size more on either side, so that segments nearly meet.
  FitSolution line(std::size_t begin, std::size_t end, bool with_neighbours) const {
    if (with_neighbours) begin -= begin > 0, end += end < sizes_.size();
    const auto own = within(all_, points_, sizes_[begin], sizes_[end - 1] + 1);
    return fit_robustly(line_problem(all_, own), own);
  }

  double segment_cost(std::size_t begin, std::size_t end, double scale) {
    const auto [place, is_new] = lines_.try_emplace({begin, end});
    if (is_new) place->second = line(begin, end, false);
    return cost_of(place->second, within(all_, points_, sizes_[begin], sizes_[end - 1] + 1), scale);
  }

  /// Cheapest cut of all sizes into `count` segments.
  Cut cut(std::size_t count, double scale) {
    std::vector<Cut> upto(sizes_.size() + 1);  // of the first i sizes
    upto[0].cost = 0;
    for (std::size_t segment = 0; segment < count; ++segment) {
      std::vector<Cut> longer(sizes_.size() + 1);
      for (std::size_t end = kLeastSizes; end <= sizes_.size(); ++end)
        for (std::size_t begin = 0; begin + kLeastSizes <= end; ++begin) {
          if (!std::isfinite(upto[begin].cost)) continue;
          const double cost = upto[begin].cost + segment_cost(begin, end, scale);
          if (cost >= longer[end].cost) continue;
          longer[end] = upto[begin];
          longer[end].cost = cost;
          longer[end].ranges.emplace_back(begin, end);
        }
      upto = std::move(longer);
    }
    return upto.back();
  }

  double noise(const Cut& cut) {
    std::vector<double> errors;
    for (const auto& [begin, end] : cut.ranges)
      for (const std::size_t point : within(all_, points_, sizes_[begin], sizes_[end - 1] + 1))
        errors.push_back(lines_.at({begin, end}).errors[point]);
    const double spare = std::max(0.25, 1 - 2 * double(cut.ranges.size()) / double(points_.size()));
    return std::max(kLeastCollectiveNoise, robust_deviation(errors) / std::sqrt(spare));
  }

  CollectiveCurve curve(const Cut& cut) const {
    CollectiveCurve curve;
    for (const auto& [begin, end] : cut.ranges) {
      const FitSolution fitted = line(begin, end, true);
      const Bytes size = all_.sizes[sizes_[begin]];
      // Between the last size of one segment and the first of the next, half-way as sizes go.
      const Bytes from =
          begin == 0 ? size
                     : Bytes{std::int64_t(std::sqrt(double(size.count) * double(all_.sizes[sizes_[begin - 1]].count)))};
      curve.segments.push_back({from, fitted.parameters[0], fitted.parameters[1]});
    }
    return curve;
  }

  const CurveSamples& all_;
  std::span<const std::size_t> points_;
  std::vector<std::size_t> sizes_;  // numbers of the sizes at hand
  std::map<std::pair<std::size_t, std::size_t>, FitSolution> lines_;
};

double error_of(const CollectiveCurve& curve, const CurveSamples& all, std::size_t point) {
  return std::log(curve.time(all.message[point]).value / all.time[point]);
}

std::vector<double> errors_of(const CollectiveCurve& curve, const CurveSamples& all) {
  std::vector<double> errors;
  for (std::size_t point = 0; point < all.time.size(); ++point) errors.push_back(error_of(curve, all, point));
  return errors;
}

double scale_of(std::span<const double> errors) { return std::max(kLeastCollectiveNoise, robust_deviation(errors)); }

/// Segments, and on them what they leave over.
CollectiveCurve fit_points(const CurveSamples& all, std::span<const std::size_t> points) {
  CollectiveCurve curve = Segmentation(all, points).best();
  std::vector<CorrectionSizes> sizes;
  for (const Bytes message : all.message) sizes.push_back(correction_sizes(message));
  const std::vector<double> errors = errors_of(curve, all);
  curve.correction = fit_correction(sizes, errors, scale_of(errors), points, 0);
  return curve;
}

std::optional<CollectiveCurve> fit_curve(const CurveSamples& all, std::vector<double>& held_out) {
  if (all.sizes.size() < kLeastSizes) return std::nullopt;
  CollectiveCurve curve = fit_points(all, all_points(all.time.size()));
  const auto refit = [&all](std::span<const std::size_t> seen) -> ErrorOf {
    return [&all, curve = fit_points(all, seen)](std::size_t point) { return error_of(curve, all, point); };
  };
  // A fold needs enough sizes left to make a curve of.
  if (all.sizes.size() > kLeastSizes + 1) held_out = held_out_errors(all.size_of, refit);
  const std::vector<double> errors = errors_of(curve, all);
  curve.quality = fit_quality(errors, held_out, scale_of(errors));
  curve.least = all.sizes.front();
  curve.most = all.sizes.back();
  return curve;
}

}  // namespace

std::vector<CollectiveCurve> fit_collective_curves(std::span<const Sample> samples, HeldOutErrors* held_out) {
  std::map<std::tuple<CollectiveKind, RankScope, std::int64_t>, std::vector<Sample>> cases;
  for (const Sample& s : samples)
    if (is_usable(s, ProbeFamily::Collective) && s.probe.bytes.count > 0)
      cases[{s.probe.collective, s.probe.scope, s.probe.group_ranks}].push_back(s);
  std::vector<CollectiveCurve> curves;
  for (const auto& [group, own] : cases) {
    std::vector<double> errors;
    auto curve = fit_curve(sorted(own), errors);
    if (!curve) continue;
    if (held_out) append(*held_out, "message sizes", errors);
    std::tie(curve->kind, curve->scope, curve->num_ranks) = group;
    curves.push_back(*std::move(curve));
  }
  return curves;
}

}  // namespace gpuplan
