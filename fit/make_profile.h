// From all samples of a machine to the profile that is written: fits, and the few numbers of the cost model that follow
// from them. Every fit is robust (a few wrong samples do not move it), has an interval for each number, and says how
// far it is off on samples it had not seen.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cluster/cluster_spec.h"
#include "cluster/profile/measured.h"
#include "cluster/profile/probe.h"
#include "cluster/profile/profile.h"
#include "fit/quality.h"

namespace gpuplan {

/// Facts about the device that the fit needs: they decide tiles and units of the surface.
struct FitDevice {
  DeviceKind kind{};
  std::int64_t num_units = 1;  // SMs, or threads of a rank
};

/// One surface per type, layout and batchedness with enough samples, for products that `num_ranks` ranks do at once.
std::vector<GemmSurface> fit_gemm_surfaces(std::span<const Sample> samples, std::int64_t num_ranks,
                                           const FitDevice& device, HeldOutErrors* held_out = nullptr);

/// One curve per collective and group.
std::vector<CollectiveCurve> fit_collective_curves(std::span<const Sample> samples, HeldOutErrors* held_out = nullptr);

/// Launch and bandwidth of each memory-bound kernel: t = launch + traffic / bandwidth.
std::vector<KernelRate> fit_kernel_rates(std::span<const Sample> samples, std::int64_t num_ranks);

/// Rates of the attention kernels.
std::vector<AttentionRate> fit_attention_rates(std::span<const Sample> samples, std::int64_t num_ranks);

/// Everything that is one number: launch and dispatch latency, copies, overheads, and how a collective slows a product
/// down.
std::vector<ScalarFit> fit_scalars(std::span<const Sample> samples);

/// `cluster` is the measured machine with its catalogue rates: shares are of those.
ProfileDraft make_profile(const std::string& id, std::span<const Sample> samples, const MeasuredOn& on,
                          const ClusterSpec& cluster);

}  // namespace gpuplan
