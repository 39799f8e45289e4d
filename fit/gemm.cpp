// Surfaces of matrix products. The form is GemmSurface's; here are what is usual for its parameters and which tiles are
// tried.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "cluster/profile/profile_ranges.h"
#include "fit/correction.h"
#include "fit/make_profile.h"
#include "fit/quality.h"

namespace gpuplan {
namespace {

constexpr std::size_t kLeastShapes = 8, kLeastThin = 16;
constexpr double kAlignment =
    0.5;  // octaves per power of two; chosen by cross-validation on oneDNN 2.6 (fp32, bf16; 3,443 products)
constexpr double kLeastFlopsRange = 4;  // most over least: fewer say nothing of how time grows

struct Tile {
  std::int64_t m, n;
};
// Of cuBLAS kernels, largest first; and of CPU kernels: oneDNN blocks AVX-512 and AMX in 16s to 64s.
constexpr std::array kGpuTiles{Tile{128, 256}, Tile{256, 128}, Tile{128, 128}, Tile{64, 128}, Tile{64, 64}};
constexpr std::array kCpuTiles{Tile{32, 32}, Tile{16, 64}, Tile{64, 64}};

std::span<const Tile> tiles_of(DeviceKind kind) {
  if (kind == DeviceKind::Cuda) return kGpuTiles;
  return kCpuTiles;
}

/// Prior of a parameter, for where samples do not say. Losses: too small to matter. Rates: what the best samples reach.
ParameterPrior prior_of(std::string_view name, std::span<const Sample> samples, DeviceKind kind) {
  std::vector<double> rates, bandwidths, times;
  for (const Sample& s : samples) {
    rates.push_back(s.probe.flops() / s.median);
    bandwidths.push_back(double(s.probe.traffic().count) / s.median);
    times.push_back(s.median);
  }
  if (name == "rate") return {.usual = quantile(rates, 0.95), .spread = 1};
  if (name == "bandwidth") return {.usual = 2 * quantile(bandwidths, 0.95), .spread = 1};
  if (name == "launch") return {.usual = 0.5 * quantile(times, 0), .spread = 1.5, .most = quantile(times, 0.02)};
  if (name == "exposed" || name == "wave_loss") return {.usual = 0.3, .spread = 1, .most = 1};
  if (name == "cache") return {.usual = 1e7, .spread = 1};  // one core's share of the last one, and its own
  if (name == "k_depth") return {.usual = 500, .spread = 1.5};
  if (name.ends_with("_half")) return {.usual = 2, .spread = 2};
  // A GPU's tiles stream through shared memory, whatever the depth and the size of the product.
  if (kind == DeviceKind::Cuda && (name == "depth_loss" || name == "spill_loss" || name == "memory_loss"))
    return {.usual = 1e-3, .spread = 0.5, .may_be_none = true};
  if (name == "memory_loss") return {.usual = 1, .spread = 2, .may_be_none = true};
  return {.usual = 0.01, .spread = 2, .may_be_none = true};  // losses
}

GemmSurface with_values(GemmSurface surface, std::span<const double> values) {
  for (std::size_t i = 0; i < kGemmParameters.size(); ++i) (surface.*kGemmParameters[i].member).value = values[i];
  return surface;
}

FitProblem problem_of(const GemmSurface& frame, std::span<const Sample> samples, DeviceKind kind) {
  FitProblem problem;
  for (const GemmParameter& parameter : kGemmParameters) {
    ParameterPrior& prior = problem.parameters.emplace_back(prior_of(parameter.name, samples, kind));
    prior.most = std::min(prior.most, profile_range("gemm", parameter.name).range.most);  // else none could read it
  }
  for (const Sample& s : samples) {
    problem.measured.push_back(s.median);
    problem.noise.push_back(noise_of(s));
  }
  problem.model = [frame, samples](std::span<const double> values) {
    const GemmSurface surface = with_values(frame, values);
    std::vector<double> times;
    times.reserve(samples.size());
    for (const Sample& s : samples) times.push_back(surface.time(s.probe.shape).value);
    return times;
  };
  return problem;
}

auto key_of(const GemmShape& s) { return std::tuple(s.m * s.n * s.k * s.batch, s.m, s.n, s.k, s.batch); }

GemmRange range_of(std::span<const Sample> samples) {
  GemmRange range{samples.front().probe.shape, samples.front().probe.shape};
  for (const Sample& s : samples)
    for (const auto size : {&GemmShape::m, &GemmShape::n, &GemmShape::k, &GemmShape::batch}) {
      range.least.*size = std::min(range.least.*size, s.probe.shape.*size);
      range.most.*size = std::max(range.most.*size, s.probe.shape.*size);
    }
  return range;
}

/// Says whether the samples tell how time depends on shape.
bool is_telling(std::span<const Sample> samples, std::size_t num_shapes) {
  const auto flops = [](const Sample& s) { return s.probe.flops(); };
  const auto [least, most] =
      std::minmax_element(samples.begin(), samples.end(), [&](auto& a, auto& b) { return flops(a) < flops(b); });
  return num_shapes >= kLeastShapes && flops(*most) >= kLeastFlopsRange * flops(*least);
}

/// Fits what the form of `surface` leaves over, and says how far both together are off.
void correct(GemmSurface& surface, const std::vector<Sample>& samples, const FitProblem& problem,
             const FitSolution& form, std::span<const std::size_t> shape, std::vector<double>& held_out) {
  std::vector<CorrectionSizes> sizes;
  for (const Sample& s : samples) sizes.push_back(correction_sizes(s.probe.shape));
  const auto corrected = [&](const FitSolution& fitted, const LocalCorrection& correction, std::size_t point) {
    return fitted.errors[point] + correction.at(sizes[point]);
  };
  const auto refit = [&](std::span<const std::size_t> points) -> ErrorOf {
    const FitSolution fitted = fit_robustly(problem, points, &form);
    const LocalCorrection correction = fit_correction(sizes, fitted.errors, fitted.scale, points, kAlignment);
    return [=](std::size_t point) { return corrected(fitted, correction, point); };
  };
  held_out = held_out_errors(shape, refit);
  const std::vector<std::size_t> all = all_points(samples.size());
  surface.correction = fit_correction(sizes, form.errors, form.scale, all, kAlignment);
  std::vector<double> errors;
  for (const std::size_t point : all) errors.push_back(corrected(form, surface.correction, point));
  surface.quality = fit_quality(errors, held_out, form.scale);
}

/// `frame` says type, layout, regime and units.
std::optional<GemmSurface> fit_surface(GemmSurface frame, const std::vector<Sample>& samples, DeviceKind kind,
                                       std::vector<double>& held_out) {
  std::vector<decltype(key_of({}))> keys;
  for (const Sample& s : samples) keys.push_back(key_of(s.probe.shape));
  const std::vector<std::size_t> shape = group_by(keys);
  if (!is_telling(samples, *std::max_element(shape.begin(), shape.end()) + 1)) return std::nullopt;

  std::optional<FitSolution> best;
  GemmSurface surface = frame;
  for (const Tile& tile : tiles_of(kind)) {
    frame.tile_m = tile.m;
    frame.tile_n = tile.n;
    FitSolution fitted = fit_robustly(problem_of(frame, samples, kind));
    if (best && best->cost <= fitted.cost) continue;
    best = std::move(fitted);
    surface = frame;
  }
  for (std::size_t i = 0; i < kGemmParameters.size(); ++i) surface.*kGemmParameters[i].member = best->parameters[i];
  surface.range = range_of(samples);
  correct(surface, samples, problem_of(surface, samples, kind), *best, shape, held_out);
  return surface;
}

using Case = std::tuple<GemmType, GemmLayout, GemmRegime>;

/// Samples of each surface. On a GPU tiles shrink with thin products and one surface holds for all; CPU libraries treat
/// them each in its own way. Those too few for a surface of their own belong to the wide ones.
std::map<Case, std::vector<Sample>> cases_of(std::span<const Sample> samples, std::int64_t num_ranks, DeviceKind kind) {
  std::map<Case, std::vector<Sample>> cases;
  for (const Sample& s : samples)
    if (is_usable(s, ProbeFamily::Gemm) && s.probe.num_ranks == num_ranks)
      cases[{s.probe.type, s.probe.layout, regime_of(s.probe.shape)}].push_back(s);
  std::map<Case, std::vector<Sample>> out;
  for (auto& [key, own] : cases) {
    const auto [type, layout, regime] = key;
    const bool is_thin = regime != GemmRegime::Wide && regime != GemmRegime::Batched;
    const bool joins = is_thin && (kind == DeviceKind::Cuda || own.size() < kLeastThin);
    auto& into = out[{type, layout, joins ? GemmRegime::Wide : regime}];
    into.insert(into.end(), own.begin(), own.end());
  }
  return out;
}

}  // namespace

std::vector<GemmSurface> fit_gemm_surfaces(std::span<const Sample> samples, std::int64_t num_ranks,
                                           const FitDevice& device, HeldOutErrors* held_out) {
  std::vector<GemmSurface> surfaces;
  for (auto& [kind, own] : cases_of(samples, num_ranks, device.kind)) {
    // The order of measuring must not show in the result.
    std::sort(own.begin(), own.end(), [](const Sample& a, const Sample& b) {
      return std::tuple(key_of(a.probe.shape), a.median) < std::tuple(key_of(b.probe.shape), b.median);
    });
    const auto [type, layout, regime] = kind;
    const GemmSurface frame{.type = type, .layout = layout, .regime = regime, .num_units = device.num_units};
    std::vector<double> errors;
    if (auto surface = fit_surface(frame, own, device.kind, errors)) surfaces.push_back(*std::move(surface));
    if (held_out) append(*held_out, fmt::format("{} GEMM shapes", to_string(type)), errors);
  }
  return surfaces;
}

}  // namespace gpuplan
