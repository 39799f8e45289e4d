// Which probes a calibration consists of: the catalogue's real shapes at several token counts, in three layouts and
// every number format the device has, and everything around them. The order is fixed: most telling first, so that a
// stopped run is worth most.
#pragma once

#include <cstdint>
#include <vector>

#include "cluster/profile/probe.h"

namespace gpuplan {

struct ProbeScope {
  bool is_quick = false;                     // about 30 s instead of a few minutes
  std::vector<ProbeFamily> only;             // empty: all
  std::vector<std::int64_t> rank_counts{1};  // 1, 2, 4, … to all cores or GPUs
};

/// Limits of probes: the work of one call, and the memory that its operands may take.
struct ProbeLimits {
  const DeviceFacts& facts;
  std::int64_t num_ranks = 1;
  bool is_quick = false;

  bool is_cpu() const { return facts.kind == DeviceKind::Cpu; }
  /// Work of one call on one rank that lasts about a twentieth of a second.
  double most_flops(GemmType type) const;
  /// Largest size of all operands of a call together.
  Bytes most_memory() const;
  /// Largest size of the operands of a product or of attention.
  Bytes most_operands() const;
  /// `full`, or `quick` of a quick calibration.
  std::int64_t pick(std::int64_t full, std::int64_t quick) const { return is_quick ? quick : full; }
};

/// Lists of probes as one, each spread evenly over the whole: wherever a run is stopped, every list is as far as the
/// others.
std::vector<Probe> interleave(const std::vector<std::vector<Probe>>& lists);

// The designs, for one number of ranks. Each list starts with what tells most.
std::vector<Probe> gemm_design(const ProbeLimits& limits);
std::vector<Probe> attention_design(const ProbeLimits& limits);
std::vector<Probe> memory_design(const ProbeLimits& limits);
std::vector<Probe> dispatch_design(const ProbeLimits& limits);
std::vector<Probe> copy_design(const ProbeLimits& limits, std::int64_t num_devices);
std::vector<Probe> overhead_design(const ProbeLimits& limits);
std::vector<Probe> collective_design(const ProbeLimits& limits);
std::vector<Probe> overlap_design(const ProbeLimits& limits);

/// Probe of `num_ranks` at once; part of dispatch_design.
Probe sync_latency_probe(std::int64_t num_ranks);

/// `facts` decides formats and how large shapes may be (memory, and the time a probe may take).
std::vector<Probe> plan_probes(const DeviceFacts& facts, const ProbeScope& scope);

}  // namespace gpuplan
