// Rates of memory-bound kernels and of attention: t = launch + work / rate.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "fit/line.h"
#include "fit/make_profile.h"

namespace gpuplan {
namespace {

std::vector<LinePoint> traffic_points(std::span<const Sample> samples) {
  std::vector<LinePoint> points;
  for (const Sample& s : samples) points.push_back({double(s.probe.traffic().count), s.median, noise_of(s)});
  return points;
}

std::vector<LinePoint> flops_points(std::span<const Sample> samples) {
  std::vector<LinePoint> points;
  for (const Sample& s : samples) points.push_back({s.probe.flops(), s.median, noise_of(s)});
  return points;
}

/// One point for each amount of traffic.
std::vector<KernelPoint> curve_of(std::span<const Sample> samples) {
  std::map<std::int64_t, std::vector<double>> times;
  for (const Sample& s : samples) times[s.probe.traffic().count].push_back(s.median);
  std::vector<KernelPoint> curve;
  for (const auto& [traffic, list] : times) curve.push_back({{traffic}, {quantile(list, 0.5)}});
  return curve;
}

}  // namespace

std::vector<KernelRate> fit_kernel_rates(std::span<const Sample> samples, std::int64_t num_ranks) {
  std::map<std::pair<MemoryKernel, Dtype>, std::vector<Sample>> cases;
  for (const Sample& s : samples)
    if (is_usable(s, ProbeFamily::Memory) && s.probe.num_ranks == num_ranks)
      cases[{s.probe.kernel, s.probe.dtype}].push_back(s);
  std::vector<KernelRate> rates;
  for (const auto& [kind, own] : cases)
    if (const auto line = fit_line(traffic_points(own)))
      rates.push_back({.kernel = std::string(to_string(kind.first)),
                       .dtype = kind.second,
                       .launch = line->launch,
                       .bandwidth = line->rate,
                       .least = {std::int64_t(line->least)},
                       .most = {std::int64_t(line->most)},
                       .quality = line->quality,
                       .curve = curve_of(own)});
  return rates;
}

std::vector<AttentionRate> fit_attention_rates(std::span<const Sample> samples, std::int64_t num_ranks) {
  std::map<std::tuple<AttentionWork, Dtype, std::int64_t>, std::vector<Sample>> cases;
  for (const Sample& s : samples)
    if (is_usable(s, ProbeFamily::Attention) && s.probe.num_ranks == num_ranks)
      cases[{s.probe.attention, s.probe.dtype, s.probe.shape.k}].push_back(s);
  std::vector<AttentionRate> rates;
  for (const auto& [kind, own] : cases)
    if (const auto line = fit_line(flops_points(own)))
      rates.push_back({.kernel = std::string(to_string(std::get<0>(kind))),
                       .dtype = std::get<1>(kind),
                       .head_size = std::get<2>(kind),
                       .launch = line->launch,
                       .rate = line->rate,
                       .quality = line->quality});
  return rates;
}

}  // namespace gpuplan
