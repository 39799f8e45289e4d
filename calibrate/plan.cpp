#include "calibrate/plan.h"

#include <algorithm>
#include <array>

namespace gpuplan {
namespace {

using namespace literals;

/// Rate that a core or an SM may reach, to size probes by; being off by 3x makes a probe 3x longer or shorter and no
/// figure wrong. CPU: data/cpu.yaml for fp32; AMX multiplies bf16 16 times as wide (Intel Optimization Manual, 2 x 16 x
/// 16 x 32 per 16 cycles), of which a quarter is reached. GPU: SM of an A100, from its 19.5 / 156 / 312 TFLOP/s over
/// 108 SMs; fp8 of an H100.
struct CoreRate {
  std::string_view feature;     // in the architecture
  std::array<double, 5> flops;  // by GemmType
};
constexpr std::array kCpuRates{
    CoreRate{"amx", {120e9, 120e9, 500e9, 120e9, 120e9}}, CoreRate{"avx512", {120e9, 120e9, 120e9, 120e9, 120e9}},
    CoreRate{"avx2", {78e9, 78e9, 78e9, 78e9, 78e9}}, CoreRate{"", {27e9, 27e9, 27e9, 27e9, 27e9}}};
constexpr std::array<double, 5> kSmRates{180e9, 1.4e12, 2.9e12, 2.9e12, 15e12};

double core_rate(const DeviceFacts& facts, GemmType type) {
  if (facts.kind == DeviceKind::Cuda) return kSmRates[std::size_t(type)];
  const auto row = std::find_if(kCpuRates.begin(), kCpuRates.end(), [&](const CoreRate& rate) {
    return facts.architecture.find(rate.feature) != std::string::npos;
  });
  return row->flops[std::size_t(type)];
}

bool is_wanted(ProbeFamily family, const ProbeScope& scope) {
  return scope.only.empty() || std::find(scope.only.begin(), scope.only.end(), family) != scope.only.end();
}

/// GPUs have their own cores and memory, so only what they share is measured again with all at once. CPU ranks share
/// all, as long as each has a core: beyond that they take turns, and a probe that is shorter than a turn would not see
/// it. Synchronisation needs all ranks anywhere.
bool is_shared(const Probe& probe) {
  if (probe.family == ProbeFamily::Dispatch) return probe.dispatch == DispatchKind::SyncLatency;
  return probe.family == ProbeFamily::Copy || probe.family == ProbeFamily::Overhead ||
         probe.family == ProbeFamily::Collective || probe.family == ProbeFamily::Overlap;
}

/// Overheads first, while nothing has been allocated; all else side by side.
std::vector<Probe> plan_for(const ProbeLimits& limits, std::int64_t num_devices, const ProbeScope& scope) {
  std::vector<Probe> probes = overhead_design(limits);
  const std::int64_t num_peers = limits.num_ranks == 1 ? num_devices : limits.num_ranks;  // that the process opens
  const auto rest =
      interleave({gemm_design(limits), collective_design(limits), memory_design(limits), attention_design(limits),
                  copy_design(limits, num_peers), dispatch_design(limits), overlap_design(limits)});
  probes.insert(probes.end(), rest.begin(), rest.end());
  std::erase_if(probes, [&](const Probe& probe) {
    const bool has_own = !limits.is_cpu() || limits.num_ranks > limits.facts.num_cores;
    const bool is_repeated = has_own && limits.num_ranks > 1 && !is_shared(probe);
    return is_repeated || !is_wanted(probe.family, scope);
  });
  return probes;
}

}  // namespace

double ProbeLimits::most_flops(GemmType type) const {
  const double seconds = is_quick ? 0.02 : 0.05;
  const std::int64_t sharers = is_cpu() ? num_ranks : 1;
  const double cores = std::max(1.0, double(facts.num_cores) / double(sharers));
  return seconds * cores * core_rate(facts, type);
}

Bytes ProbeLimits::most_memory() const {
  const std::int64_t parts = 8 * (is_cpu() ? num_ranks : 1);
  return {facts.memory_free.count / parts};
}

/// A CPU makes random operands no faster than 1-2 GB/s: larger ones would take longer to make than to measure.
Bytes ProbeLimits::most_operands() const {
  if (!is_cpu()) return most_memory();
  return std::min(most_memory(), is_quick ? 64_MiB : 256_MiB);
}

std::vector<Probe> interleave(const std::vector<std::vector<Probe>>& lists) {
  struct Place {
    double share{};  // of its list
    const Probe* probe{};
  };
  std::vector<Place> places;
  for (const auto& list : lists)
    for (std::size_t i = 0; i < list.size(); ++i) places.push_back({(double(i) + 0.5) / double(list.size()), &list[i]});
  std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.share < b.share; });
  std::vector<Probe> merged;
  for (const Place& place : places) merged.push_back(*place.probe);
  return merged;
}

std::vector<Probe> plan_probes(const DeviceFacts& facts, const ProbeScope& scope) {
  std::vector<Probe> probes;
  const std::int64_t num_devices = std::ranges::max(scope.rank_counts);
  for (const std::int64_t num_ranks : scope.rank_counts) {
    const auto more = plan_for({facts, num_ranks, scope.is_quick}, num_devices, scope);
    probes.insert(probes.end(), more.begin(), more.end());
  }
  // Ranks that take turns on their cores are not measured at what they do alone, but at waiting for each other, which
  // takes them far longer.
  const bool fills_cores = facts.kind == DeviceKind::Cpu && num_devices > 1 && num_devices == facts.num_cores;
  if (fills_cores && is_wanted(ProbeFamily::Dispatch, scope)) probes.push_back(sync_latency_probe(2 * facts.num_cores));
  return probes;
}

}  // namespace gpuplan
