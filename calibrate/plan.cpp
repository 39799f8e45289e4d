#include "calibrate/plan.h"

#include <algorithm>

#include "calibrate/design/limits.h"

namespace gpuplan {
namespace {

bool is_wanted(ProbeFamily family, const ProbeScope& scope) {
  return scope.only.empty() || std::find(scope.only.begin(), scope.only.end(), family) != scope.only.end();
}

/// GPUs have their own cores and memory, so only what they share is measured again with all at once. CPU ranks share
/// all, as long as each has a core: beyond that they take turns, and a probe that is shorter than a turn would not see
/// it. To meet takes all of them anywhere.
bool is_shared(const Probe& probe) {
  if (probe.family == ProbeFamily::Dispatch) return probe.dispatch == DispatchKind::Meeting;
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

std::vector<Probe> plan_probes(const DeviceFacts& facts, const ProbeScope& scope) {
  std::vector<Probe> probes;
  const std::int64_t num_devices = std::ranges::max(scope.rank_counts);
  for (const std::int64_t num_ranks : scope.rank_counts) {
    const auto more = plan_for({facts, num_ranks, scope.is_quick}, num_devices, scope);
    probes.insert(probes.end(), more.begin(), more.end());
  }
  // Ranks that take turns on their cores are not measured at what they do alone, but at meeting each other, which takes
  // them far longer.
  const bool fills_cores = facts.kind == DeviceKind::Cpu && num_devices > 1 && num_devices == facts.num_cores;
  if (fills_cores && is_wanted(ProbeFamily::Dispatch, scope)) probes.push_back(meeting_probe(2 * facts.num_cores));
  return probes;
}

}  // namespace gpuplan
