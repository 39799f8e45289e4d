#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "base/unit_text.h"
#include "cluster/cluster_spec.h"
#include "cluster/gpu_catalogue.h"
#include "report/profile_numbers.h"
#include "report/text/amounts.h"
#include "report/text/profile_text.h"
#include "report/text/text.h"

namespace gpuplan {

using namespace literals;

namespace {

using Sentences = std::vector<std::string>;

std::optional<GpuSpec> catalogue_gpu(const MeasuredOn& on) {
  if (on.gpu == "cpu" || !known_gpu(on.gpu)) return std::nullopt;  // or a product that the catalogue does not have yet
  return find_gpu(on.gpu, nullptr);
}

FlopsPerSec datasheet_rate(const GpuSpec& gpu, GemmType type) {
  switch (type) {
    case GemmType::F32: return gpu.fp32;
    case GemmType::TF32: return gpu.tf32;
    case GemmType::BF16: return gpu.bf16;
    case GemmType::F16: return gpu.fp16;
    case GemmType::F8: return gpu.fp8;
  }
  return {};
}

/// The largest of the usual cubes that was within the measured shapes; 0: none was.
std::int64_t cube_within(const GemmSurface& surface) {
  for (const std::int64_t edge : {4096, 2048, 1024, 512, 256})
    if (surface.range.contains({edge, edge, edge, 1})) return edge;
  return 0;
}

FlopsPerSec rate_at(const GemmSurface& surface, std::int64_t edge) {
  if (edge == 0) return {surface.rate.value};
  const double flops = 2.0 * double(edge) * double(edge) * double(edge);
  return Flops{flops} / surface.time({edge, edge, edge, 1});
}

const GemmSurface* find_surface(const MeasurementsAtRanks& load, GemmType type) {
  for (const GemmSurface& s : load.gemm)
    if (s.type == type && s.layout == GemmLayout::Forward && s.regime == GemmRegime::Wide) return &s;
  return nullptr;
}

/// "bf16 GEMM reaches 71 % of peak at 4096³: 110 TFLOP/s".
std::string gemm_sentence(const GemmSurface& surface, const std::optional<GpuSpec>& gpu) {
  const std::int64_t edge = cube_within(surface);
  const FlopsPerSec rate = rate_at(surface, edge), peak = gpu ? datasheet_rate(*gpu, surface.type) : FlopsPerSec{};
  const std::string where = edge == 0 ? " on large shapes" : fmt::format(" at {}³", edge);
  if (peak.value <= 0) return fmt::format("{} GEMM reaches {}{}", to_string(surface.type), format_rate(rate), where);
  return fmt::format("{} GEMM reaches {:.0f} % of peak{}: {}", to_string(surface.type), 100 * (rate / peak), where,
                     format_rate(rate));
}

/// Gives what is left to each of several ranks: ", 61 GFLOP/s each with 2 ranks at once".
std::string shared_rates(const Measured& measured, const GemmSurface& alone) {
  std::string out;
  for (const MeasurementsAtRanks& load : measured.loads)
    if (const GemmSurface* s = find_surface(load, alone.type); s && load.num_ranks > measured.loads.front().num_ranks)
      out +=
          fmt::format(", {} each with {} ranks at once", format_rate(rate_at(*s, cube_within(alone))), load.num_ranks);
  return out;
}

void add_gemm(Sentences& out, const Measured& measured, const std::optional<GpuSpec>& gpu) {
  if (measured.loads.empty()) return;
  for (const GemmType type : kGemmTypes)
    if (const GemmSurface* s = find_surface(measured.loads.front(), type))
      out.push_back(gemm_sentence(*s, gpu) + shared_rates(measured, *s));
}

/// "memory is copied at 4.03 TB/s, 84 % of peak, reading and writing counted".
void add_memory(Sentences& out, const Measured& measured, const std::optional<GpuSpec>& gpu) {
  const KernelRate* best = nullptr;
  for (const MeasurementsAtRanks& load : measured.loads)
    for (const KernelRate& rate : load.kernels)
      if (load.num_ranks == measured.loads.front().num_ranks && rate.kernel == "copy" &&
          (!best || rate.bandwidth.value > best->bandwidth.value))
        best = &rate;
  if (!best) return;
  const BytesPerSec rate{best->bandwidth.value};
  const bool has_peak = gpu && gpu->memory_bandwidth.value > 0;
  out.push_back(fmt::format("memory is copied at {}{}, reading and writing counted", format_rate(rate),
                            has_peak ? fmt::format(", {:.0f} % of peak", 100 * (rate / gpu->memory_bandwidth)) : ""));
}

void add_attention(Sentences& out, const Measured& measured) {
  if (measured.loads.empty()) return;
  std::string text;
  for (const AttentionRate& rate : measured.loads.front().attention)
    text += fmt::format("{}{} {} at head size {} reaches {}", text.empty() ? "" : ", ", rate.kernel,
                        to_string(rate.dtype), rate.head_size, format_rate(FlopsPerSec{rate.rate.value}));
  if (!text.empty()) out.push_back("attention: " + text);
}

/// "copies: pinned-to-device 25.1 GB/s, 12.8 GB/s each of 4 at once, device-to-host 9.3 GB/s".
void add_copies(Sentences& out, const Measured& measured) {
  constexpr std::string_view kCopy = "copy ";
  std::string text, path;
  for (const ScalarFit& scalar : measured.scalars) {
    if (!scalar.name.starts_with(kCopy)) continue;
    const std::string shared = scalar.num_ranks > 1 ? fmt::format(" each of {} at once", scalar.num_ranks) : "";
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ",
                        scalar.name == path ? "" : scalar.name.substr(kCopy.size()) + " ",
                        format_rate(BytesPerSec{scalar.value.value}), shared);
    path = scalar.name;
  }
  if (!text.empty()) out.push_back("copies: " + text);
}

Bytes within(const CollectiveCurve& curve, Bytes size) { return std::clamp(size, curve.least, curve.most); }

std::string size_text(Bytes size) { return mark_label(double(size.count), PlotUnit::ByteCount); }

/// "4-rank all-reduce: 11.8 GB/s busbw at 64 MiB, 21 us at 1 KiB".
std::string collective_sentence(const CollectiveCurve& curve) {
  const Bytes large = within(curve, 64_MiB), small = within(curve, 1_KiB);
  return fmt::format("{}-rank {}{}: {} busbw at {}, {} at {}", curve.num_ranks, to_string(curve.kind),
                     curve.scope == RankScope::All ? "" : " in pairs", format_rate(curve.bus_bandwidth(large)),
                     size_text(large), format_short_duration(curve.time(small)), size_text(small));
}

std::string fabric_suffix(const MeasuredOn& on, const std::optional<GpuSpec>& gpu) {
  const auto* const row = names_of(FabricKind{}).find(on.fabric);
  if (!gpu || !row || row->value == FabricKind::None) return "";
  return " (" + describe_fabric(row->value, *gpu) + ")";
}

void add_collectives(Sentences& out, const Measured& measured, const std::optional<GpuSpec>& gpu) {
  for (const CollectiveCurve& curve : measured.collectives)
    if (curve.kind == CollectiveKind::AllReduce && !curve.segments.empty())
      out.push_back(collective_sentence(curve) +
                    (curve.scope == RankScope::All ? fabric_suffix(measured.on, gpu) : ""));
}

void add_quality(Sentences& out, const Measured& measured) {
  for (const HeldOut& e : measured.held_out)
    out.push_back(fmt::format("{} that the fit had not seen: off by {} in the median, {} at p90 ({} of them)", e.what,
                              error_percent(e.median), error_percent(e.p90), e.num_points));
}

void add_failures(Sentences& out, const std::vector<Sample>& samples) {
  const auto failed = std::count_if(samples.begin(), samples.end(), [](const Sample& s) { return !s.is_ok(); });
  if (failed > 0) out.push_back(fmt::format("{} of {} probes gave no figure", failed, samples.size()));
}

}  // namespace

std::vector<std::string> summary_sentences(const Profile& profile) {
  Sentences out;
  if (!profile.measured) return out;
  const Measured& measured = *profile.measured;
  const auto gpu = catalogue_gpu(measured.on);
  const std::vector<Sample> samples = samples_of(profile);
  add_gemm(out, measured, gpu);
  add_memory(out, measured, gpu);
  add_attention(out, measured);
  add_copies(out, measured);
  add_collectives(out, measured, gpu);
  add_quality(out, measured);
  add_failures(out, samples);
  return out;
}

std::string profile_summary(const Profile& profile, const Screen& screen) {
  return points(summary_sentences(profile), screen);
}

}  // namespace gpuplan
