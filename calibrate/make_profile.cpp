#include "calibrate/make_profile.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include <fmt/format.h>

#include "calibrate/fit.h"
#include "calibrate/sampler.h"

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

/// The last sample of a single rank that `is_wanted`: plans list sizes in rising order, so the largest.
const Sample* last_of(std::span<const Sample> samples, const std::function<bool(const Probe&)>& is_wanted) {
  const Sample* found = nullptr;
  for (const Sample& sample : samples)
    if (sample.is_ok() && is_wanted(sample.probe) && (!found || sample.probe.bytes >= found->probe.bytes)) found = &sample;
  return found;
}

Fitted scaled(const Sample& sample, double factor) {
  return {sample.median * factor, sample.low * factor, sample.high * factor};
}

/// factor / sample: a larger time is a smaller rate.
Fitted rate_of(const Sample& sample, double amount) {
  return {amount / sample.median, amount / sample.high, amount / sample.low};
}

const KernelRate* find_kernel(const MachineLoad& load, std::string_view name) {
  for (const KernelRate& rate : load.kernels)
    if (rate.kernel == name && rate.dtype == Dtype::F32) return &rate;
  return nullptr;
}

Fitted ratio(const Fitted& a, const Fitted& b) { return {a.value / b.value, a.low / b.high, a.high / b.low}; }
Fitted times(const Fitted& a, double factor) { return {a.value * factor, a.low * factor, a.high * factor}; }

void add_kernels(ValueList& values, const MachineLoad& load, const ClusterSpec& cluster, bool is_cpu) {
  const auto add = [&](const char* name, const char* unit, Fitted f, const KernelRate& rate) {
    values.add(name, unit, f, rate.quality.num_points, rate.quality.median_error);
  };
  const KernelRate* copy = find_kernel(load, "copy");
  if (!copy) return;
  const double datasheet = cluster.gpus.front().memory_bandwidth.value;
  add("memory_efficiency", "share of the stated bandwidth", times(copy->bandwidth, 1 / datasheet), *copy);
  if (const KernelRate* norm = find_kernel(load, "rms-norm"))
    add("fused_bytes_factor", "factor on the fused bytes", ratio(copy->bandwidth, norm->bandwidth), *norm);
  if (const KernelRate* nf4 = find_kernel(load, "nf4-dequantise"))
    add("dequant_bytes_factor", "factor", ratio(copy->bandwidth, nf4->bandwidth), *nf4);
  if (const KernelRate* adamw = find_kernel(load, "adamw"); adamw && is_cpu)
    add("cpu_optimizer_bandwidth", "GB/s", times(adamw->bandwidth, 1e-9), *adamw);
}

void add_dispatch(ValueList& values, std::span<const Sample> samples) {
  const auto latency = [&](const char* name, DispatchKind kind) {
    const Sample* sample = last_of(samples, [&](const Probe& p) {
      return p.family == ProbeFamily::Dispatch && p.dispatch == kind && p.num_ranks == 1;
    });
    if (sample) values.add(name, "us", scaled(*sample, 1e6), sample->num_runs, 0);
  };
  latency("kernel_overhead", DispatchKind::EmptyKernel);
  latency("dispatch_compiled", DispatchKind::HostEnqueue);
}

void add_host_link(ValueList& values, std::span<const Sample> samples, const ClusterSpec& cluster) {
  const Sample* copy = last_of(samples, [](const Probe& p) {
    return p.family == ProbeFamily::Copy && p.path == CopyPath::PinnedToDevice && p.num_ranks == 1;
  });
  if (copy && cluster.host_link.value > 0)
    values.add("host_link_efficiency", "share of the effective rate",
               times(rate_of(*copy, double(copy->probe.bytes.count)), 1 / cluster.host_link.value), copy->num_runs, 0);
}

void add_memory(ValueList& values, std::span<const Sample> samples) {
  const auto bytes = [&](const char* name, OverheadKind kind) {
    const Sample* sample =
        last_of(samples, [&](const Probe& p) { return p.family == ProbeFamily::Overhead && p.overhead == kind; });
    if (sample) values.add(name, "MiB", scaled(*sample, 0x1p-20), sample->num_runs, 0);
  };
  bytes("context", OverheadKind::Context);
  bytes("blas_workspace", OverheadKind::BlasWorkspace);
  bytes("nccl", OverheadKind::Communicator);
}

void add_overlap(ValueList& values, std::span<const Sample> samples) {
  std::vector<double> slower;
  for (const Sample& sample : samples)
    if (sample.is_ok() && sample.probe.family == ProbeFamily::Overlap) slower.push_back(std::max(0.0, sample.overlapped - 1));
  if (slower.empty()) return;
  const RunStatistics all = summarise(slower);
  values.add("overlap_slowdown", "share", {all.median, all.low, all.high}, std::int64_t(slower.size()), 0);
}

std::vector<MachineLoad> fit_loads(std::span<const Sample> samples, const FitDevice& device) {
  std::set<std::int64_t> counts;
  for (const Sample& sample : samples) counts.insert(sample.probe.num_ranks);
  std::vector<MachineLoad> out;
  for (const std::int64_t ranks : counts) {
    FitDevice shared = device;
    if (device.kind == DeviceKind::Cpu) shared.num_units = std::max<std::int64_t>(1, device.num_units / ranks);
    MachineLoad load{.num_ranks = ranks,
                     .gemm = fit_gemm_surfaces(samples, ranks, shared),
                     .kernels = fit_kernel_rates(samples, ranks),
                     .attention = fit_attention_rates(samples, ranks)};
    if (!load.gemm.empty() || !load.kernels.empty() || !load.attention.empty()) out.push_back(std::move(load));
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
  draft.measured.loads = fit_loads(samples, {is_cpu ? DeviceKind::Cpu : DeviceKind::Cuda, on.num_cores});
  draft.measured.collectives = fit_collective_curves(samples);
  for (const Sample& sample : samples) draft.measured.samples += to_json_line(sample) + "\n";
  ValueList values(fmt::format("gpuplan calibrate, {}", on.date));
  if (!draft.measured.loads.empty()) add_kernels(values, draft.measured.loads.front(), cluster, is_cpu);
  add_dispatch(values, samples);
  add_host_link(values, samples, cluster);
  add_overlap(values, samples);
  if (!is_cpu) add_memory(values, samples);
  draft.values = values.take();
  return draft;
}

}  // namespace gpuplan
