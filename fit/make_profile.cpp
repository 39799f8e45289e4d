#include "fit/make_profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "fit/quality.h"

namespace gpuplan {
namespace {

using Values = std::vector<std::pair<std::string, ProfileValue>>;

/// Adds values as they are found, all with the same source.
class ValueList {
 public:
  explicit ValueList(std::string source) : source_(std::move(source)) {}

  void add(const char* name, const char* unit, Fitted f, std::int64_t num_samples, double residual) {
    if (!std::isfinite(f.value) || f.value < 0) return;
    values_.emplace_back(name, ProfileValue{.value = f.value,
                                            .unit = unit,
                                            .kind = "measured",
                                            .source = source_,
                                            .low = std::max(0.0, f.low),
                                            .high = f.high,
                                            .num_samples = num_samples,
                                            .residual = residual});
  }
  Values take() { return std::move(values_); }

 private:
  std::string source_;
  Values values_;
};

const KernelRate* find_kernel(const MeasurementsAtRanks& load, std::string_view name) {
  for (const KernelRate& rate : load.kernels)
    if (rate.kernel == name && rate.dtype == Dtype::F32) return &rate;
  return nullptr;
}

Fitted ratio(const Fitted& a, const Fitted& b) { return {a.value / b.value, a.low / b.high, a.high / b.low}; }
/// Rate of the slower of two rates in series, of which `other` is one and `both` the two together.
Fitted beside(const Fitted& both, double other) {
  const auto rest = [&](double rate) { return 1 / (1 / rate - 1 / other); };
  return {rest(both.value), rest(both.low), rest(both.high)};
}
Fitted times(const Fitted& a, double factor) { return {a.value * factor, a.low * factor, a.high * factor}; }

void add_kernels(ValueList& values, const MeasurementsAtRanks& load, const ClusterSpec& cluster, bool is_cpu) {
  const auto add = [&](const char* name, const char* unit, Fitted f, const KernelRate& rate) {
    values.add(name, unit, f, rate.quality.num_points, rate.quality.median_error);
  };
  const KernelRate* copy = find_kernel(load, "copy");
  if (!copy) return;
  const double datasheet = cluster.gpus.front().memory_bandwidth.value;
  add("memory_efficiency", "share of the stated bandwidth", times(copy->bandwidth, 1 / datasheet), *copy);
  if (const KernelRate* norm = find_kernel(load, "rms-norm"))
    add("fused_bytes_factor", "factor on the fused bytes", ratio(copy->bandwidth, norm->bandwidth), *norm);
  const KernelRate* nf4 = find_kernel(load, "nf4-dequantise");
  if (const double sms = double(cluster.gpus.front().sm_count);
      nf4 && sms > 0 && nf4->bandwidth.high < copy->bandwidth.low)
    add("dequant_sm_bandwidth", "GB/s", times(beside(nf4->bandwidth, copy->bandwidth.value), 1e-9 / sms), *nf4);
  if (const KernelRate* adamw = find_kernel(load, "adamw"); adamw && is_cpu)
    add("cpu_optimizer_bandwidth", "GB/s", times(adamw->bandwidth, 1e-9), *adamw);
}

/// Source of a number of the cost model: a scalar of one rank, times `factor`.
struct ScalarRow {
  const char* scalar;
  const char* value;
  const char* unit;
  double factor = 1, minus = 0;
  bool is_of_gpus = false;  // a CPU has no such thing
};
constexpr double kMicro = 1e6, kMebi = 0x1p-20;
constexpr std::array kScalarRows{ScalarRow{"dispatch empty-kernel", "kernel_overhead", "us", kMicro},
                                 ScalarRow{"dispatch host-enqueue", "dispatch_compiled", "us", kMicro},
                                 ScalarRow{"overlap ", "overlap_slowdown", "share", 1, 1},
                                 ScalarRow{"overhead context", "context", "MiB", kMebi, 0, true},
                                 ScalarRow{"overhead blas-workspace", "blas_workspace", "MiB", kMebi, 0, true},
                                 ScalarRow{"overhead communicator", "nccl", "MiB", kMebi, 0, true}};

void add_scalar(ValueList& values, const ScalarRow& row, const ScalarFit& scalar) {
  Fitted f = scalar.value;
  for (double* number : {&f.value, &f.low, &f.high}) *number = std::max(0.0, (*number - row.minus) * row.factor);
  values.add(row.value, row.unit, f, scalar.quality.num_points, scalar.quality.median_error);
}

void add_scalars(ValueList& values, const Measured& measured, const ClusterSpec& cluster, bool is_cpu) {
  for (const ScalarRow& row : kScalarRows) {
    if (row.is_of_gpus && is_cpu) continue;
    const ScalarFit* fewest = nullptr;  // ranks; an overlap needs two
    for (const ScalarFit& scalar : measured.scalars)
      if (scalar.name.starts_with(row.scalar) && (!fewest || scalar.num_ranks < fewest->num_ranks)) fewest = &scalar;
    if (fewest) add_scalar(values, row, *fewest);
  }
  for (const ScalarFit& scalar : measured.scalars)
    if (scalar.name == "copy pinned-to-device" && scalar.num_ranks == 1 && cluster.host_link.value > 0)
      values.add("host_link_efficiency", "share of the effective rate",
                 times(scalar.value, 1 / cluster.host_link.value), scalar.quality.num_points,
                 scalar.quality.median_error);
}

std::vector<MeasurementsAtRanks> fit_loads(std::span<const Sample> samples, const FitDevice& device,
                                           HeldOutErrors& held_out) {
  std::set<std::int64_t> counts;
  for (const Sample& sample : samples) counts.insert(sample.probe.num_ranks);
  std::vector<MeasurementsAtRanks> out;
  for (const std::int64_t ranks : counts) {
    FitDevice shared = device;
    if (device.kind == DeviceKind::Cpu) shared.num_units = std::max<std::int64_t>(1, device.num_units / ranks);
    MeasurementsAtRanks load{.num_ranks = ranks,
                             .gemm = fit_gemm_surfaces(samples, ranks, shared, &held_out),
                             .kernels = fit_kernel_rates(samples, ranks),
                             .attention = fit_attention_rates(samples, ranks)};
    if (!load.gemm.empty() || !load.kernels.empty() || !load.attention.empty()) out.push_back(std::move(load));
  }
  return out;
}

std::vector<HeldOut> summarise(const HeldOutErrors& held_out) {
  std::vector<HeldOut> out;
  for (const auto& [what, errors] : held_out) {
    const FitQuality quality = fit_quality({}, errors, 1);
    if (!errors.empty())
      out.push_back({what, std::int64_t(errors.size()), quality.held_out_median, quality.held_out_p90});
  }
  return out;
}

}  // namespace

ProfileDraft make_profile(const std::string& id, std::span<const Sample> samples, const MeasuredOn& on,
                          const ClusterSpec& cluster) {
  const bool is_cpu = on.kind == to_string(DeviceKind::Cpu);
  ProfileDraft draft{.id = id,
                     .title = fmt::format("measured on {}, {}", on.device, on.date),
                     .based_on = default_profile(cluster.gpus.front()).id,
                     .measured = {.on = on}};
  HeldOutErrors held_out;
  draft.measured.loads = fit_loads(samples, {is_cpu ? DeviceKind::Cpu : DeviceKind::Cuda, on.num_cores}, held_out);
  draft.measured.collectives = fit_collective_curves(samples, &held_out);
  draft.measured.held_out = summarise(held_out);
  draft.measured.scalars = fit_scalars(samples);
  for (const Sample& sample : samples) draft.measured.samples += to_json_line(sample) + "\n";
  ValueList values(fmt::format("gpuplan calibrate, {}", on.date));
  if (!draft.measured.loads.empty()) add_kernels(values, draft.measured.loads.front(), cluster, is_cpu);
  add_scalars(values, draft.measured, cluster, is_cpu);
  draft.values = values.take();
  return draft;
}

}  // namespace gpuplan
