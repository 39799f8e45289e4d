#include "report/text/fit_plot.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "base/names.h"
#include "report/fit_names.h"
#include "report/profile_samples.h"

namespace gpuplan {
namespace {

constexpr int kCurvePoints = 160;

/// A fit and the samples that it was made from.
struct FittedProbes {
  std::function<bool(const Probe&)> is_of;
  std::function<double(const Probe&)> size;   // on the x axis
  std::function<Seconds(const Probe&)> time;  // fitted
  double work_per_size = 1;                   // y = work / time
  double least = 0, most = HUGE_VAL;          // sizes that were fitted

  bool was_fitted(const Probe& probe) const { return size(probe) >= least && size(probe) <= most; }
};

std::vector<const Sample*> samples_for(const FittedProbes& fit, const std::vector<Sample>& samples) {
  std::vector<const Sample*> out;
  for (const Sample& sample : samples)
    if (sample.is_ok() && sample.median > 0 && fit.is_of(sample.probe) && fit.size(sample.probe) > 0)
      out.push_back(&sample);
  std::stable_sort(out.begin(), out.end(),
                   [&](const Sample* a, const Sample* b) { return fit.size(a->probe) < fit.size(b->probe); });
  return out;
}

/// What was not fitted cannot be missed.
double miss(const FittedProbes& fit, const Sample& sample) {
  return fit.was_fitted(sample.probe) ? std::abs(std::log(fit.time(sample.probe).value / sample.median)) : 0;
}

/// From here on a sample is one of the `num_outliers` that are furthest off.
double outlier_limit(const FittedProbes& fit, const std::vector<const Sample*>& samples, std::int64_t num_outliers) {
  std::vector<double> misses;
  for (const Sample* sample : samples) misses.push_back(miss(fit, *sample));
  std::sort(misses.rbegin(), misses.rend());
  const std::size_t count = std::min(misses.size(), std::size_t(std::max<std::int64_t>(0, num_outliers)));
  return count == 0 ? HUGE_VAL : misses[count - 1];
}

void add_points(FitPlot& plot, const FittedProbes& fit, const std::vector<Sample>& all, const FitQuality& quality) {
  const auto samples = samples_for(fit, all);
  const double limit = outlier_limit(fit, samples, quality.num_outliers);
  for (const Sample* s : samples) {
    const double x = fit.size(s->probe), work = x * fit.work_per_size;
    plot.points.push_back({.x = x,
                           .y = work / s->median,
                           .low = work / std::max(s->high, s->median),
                           .high = work / (s->low > 0 ? std::min(s->low, s->median) : s->median),
                           .is_outlier = miss(fit, *s) >= limit,
                           .name = s->probe.key()});
    if (plot.style == CurveStyle::Marks) plot.curve.push_back({x, work / fit.time(s->probe).value});
  }
}

/// A line over [least, most].
void add_line(FitPlot& plot, double least, double most, double work_per_size,
              const std::function<Seconds(double)>& time) {
  for (int i = 0; i < kCurvePoints; ++i) {
    const double x = least * std::pow(most / least, double(i) / (kCurvePoints - 1));
    plot.curve.push_back({x, x * work_per_size / time(x).value});
  }
}

FitPlot gemm_plot(const GemmSurface& surface, const MeasurementsAtRanks& load, const std::vector<Sample>& samples) {
  const std::int64_t num_ranks = load.num_ranks;
  FitPlot plot{.title = gemm_name(surface) + ranks_suffix(num_ranks),
               .x_label = "size of the product",
               .y_label = "rate",
               .note = quality_text(surface.quality),
               .x_unit = PlotUnit::FlopCount,
               .y_unit = PlotUnit::FlopRate,
               .points = {},
               .curve = {},
               .style = CurveStyle::Marks};
  const auto is_of = [&](const Probe& p) {
    return p.family == ProbeFamily::Gemm && p.num_ranks == num_ranks && p.layout == surface.layout &&
           load.surface_of(p.type, p.layout, regime_of(p.shape)) == &surface;
  };
  add_points(plot,
             {is_of, [](const Probe& p) { return p.flops(); }, [&](const Probe& p) { return surface.time(p.shape); }},
             samples, surface.quality);
  return plot;
}

FitPlot kernel_plot(const KernelRate& rate, std::int64_t num_ranks, const std::vector<Sample>& samples) {
  FitPlot plot{.title = kernel_name(rate) + ranks_suffix(num_ranks),
               .x_label = "bytes moved",
               .y_label = "rate",
               .note = quality_text(rate.quality),
               .x_unit = PlotUnit::ByteCount,
               .y_unit = PlotUnit::ByteRate,
               .points = {},
               .curve = {}};
  const auto time = [&](double bytes) { return rate.time(bytes); };
  const auto size = [](const Probe& p) { return double(p.traffic().count); };
  const auto is_of = [&](const Probe& p) {
    return p.family == ProbeFamily::Memory && p.num_ranks == num_ranks && to_string(p.kernel) == rate.kernel &&
           p.dtype == rate.dtype;
  };
  const double least = rate.least.count > 0 ? double(rate.least.count) : 0x1p16,
               most = rate.most.count > 0 ? double(rate.most.count) : 0x1p28;
  add_points(plot, {is_of, size, [&](const Probe& p) { return time(size(p)); }, 1, least, most}, samples, rate.quality);
  add_line(plot, least, std::max(most, 2 * least), 1, time);
  return plot;
}

FitPlot attention_plot(const AttentionRate& rate, std::int64_t num_ranks, const std::vector<Sample>& samples) {
  FitPlot plot{.title = attention_name(rate) + ranks_suffix(num_ranks),
               .x_label = "both products, full square",
               .y_label = "rate",
               .note = quality_text(rate.quality),
               .x_unit = PlotUnit::FlopCount,
               .y_unit = PlotUnit::FlopRate,
               .points = {},
               .curve = {}};
  const auto time = [&](double flops) { return Seconds{rate.launch.value + flops / rate.rate.value}; };
  const auto is_of = [&](const Probe& p) {
    return p.family == ProbeFamily::Attention && p.num_ranks == num_ranks && to_string(p.attention) == rate.kernel &&
           p.dtype == rate.dtype && p.shape.k == rate.head_size;
  };
  add_points(plot, {is_of, [](const Probe& p) { return p.flops(); }, [&](const Probe& p) { return time(p.flops()); }},
             samples, rate.quality);
  const bool has_points = !plot.points.empty();
  add_line(plot, has_points ? plot.points.front().x : 1e8, has_points ? plot.points.back().x : 1e12, 1, time);
  return plot;
}

FitPlot collective_plot(const CollectiveCurve& curve, const std::vector<Sample>& samples) {
  FitPlot plot{.title = collective_name(curve),
               .x_label = "whole tensor",
               .y_label = "busbw",
               .note = quality_text(curve.quality),
               .x_unit = PlotUnit::ByteCount,
               .y_unit = PlotUnit::ByteRate,
               .points = {},
               .curve = {}};
  const double factor = bus_factor(curve.kind, curve.num_ranks);
  const auto time = [&](double bytes) { return curve.time(Bytes{std::llround(bytes)}); };
  const auto is_of = [&](const Probe& p) {
    return p.family == ProbeFamily::Collective && p.collective == curve.kind && p.scope == curve.scope &&
           p.group_ranks == curve.num_ranks;
  };
  add_points(plot,
             {is_of, [](const Probe& p) { return double(p.bytes.count); },
              [&](const Probe& p) { return curve.time(p.bytes); }, factor},
             samples, curve.quality);
  add_line(plot, double(std::max<std::int64_t>(1, curve.least.count)),
           double(std::max<std::int64_t>(2, curve.most.count)), factor, time);
  return plot;
}

}  // namespace

std::vector<FitPlot> fit_plots(const Profile& profile) {
  std::vector<FitPlot> out;
  if (!profile.measured) return out;
  const std::vector<Sample> samples = samples_of(profile);
  for (const MeasurementsAtRanks& load : profile.measured->loads) {
    for (const GemmSurface& surface : load.gemm) out.push_back(gemm_plot(surface, load, samples));
    for (const KernelRate& rate : load.kernels) out.push_back(kernel_plot(rate, load.num_ranks, samples));
    for (const AttentionRate& rate : load.attention) out.push_back(attention_plot(rate, load.num_ranks, samples));
  }
  for (const CollectiveCurve& curve : profile.measured->collectives) out.push_back(collective_plot(curve, samples));
  std::erase_if(out, [](const FitPlot& plot) { return plot.points.empty() && plot.curve.empty(); });
  return out;
}

}  // namespace gpuplan
