// Collectives over sizes and groups, and products that run beside one.
#include <array>
#include <cmath>

#include "calibrate/design/limits.h"

namespace gpuplan {
namespace {

using namespace literals;

/// Most telling first: large, small, then between; what is no power of four fills the gaps that algorithms switch in.
constexpr std::array kSizes{16_MiB,  1_KiB,   256_KiB, 64_MiB, 16_KiB, 1_MiB,  256_MiB, 64_KiB, 4_KiB, 4_MiB,
                            1024_MiB, 40_KiB, 640_KiB, 2_KiB,  10_MiB, 24_MiB, 6_KiB,   160_KiB, 2560_KiB};
constexpr std::size_t kQuickSizes = 6;
constexpr std::array kKinds{CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter,
                            CollectiveKind::Broadcast, CollectiveKind::SendRecv};

std::vector<Probe> group_probes(const ProbeLimits& limits, RankScope scope, std::int64_t group_ranks) {
  const Bytes most = !limits.is_cpu() ? 1_GiB : limits.is_quick ? 16_MiB : 64_MiB;
  std::vector<Probe> probes;
  for (std::size_t i = 0; i < (limits.is_quick ? kQuickSizes : kSizes.size()); ++i)
    for (const CollectiveKind kind : kKinds) {
      if (kSizes[i] > most || 2 * kSizes[i] > limits.most_memory()) continue;
      probes.push_back({.family = ProbeFamily::Collective, .num_ranks = limits.num_ranks, .collective = kind, .scope = scope,
                        .group_ranks = group_ranks, .bytes = kSizes[i]});
    }
  return probes;
}

/// A cube that takes a call's time, its sides a multiple of 128.
GemmShape large_cube(const ProbeLimits& limits, GemmType type) {
  const double side = std::cbrt(limits.most_flops(type) / 2 / 2);
  const std::int64_t size = std::min<std::int64_t>(8192, std::max<std::int64_t>(256, std::int64_t(side / 128) * 128));
  return {size, size, size};
}

}  // namespace

/// One machine is one node: its groups are all ranks and, where that is something else, pairs.
std::vector<Probe> collective_design(const ProbeLimits& limits) {
  if (limits.num_ranks < 2) return {};
  std::vector<std::vector<Probe>> groups{group_probes(limits, RankScope::All, limits.num_ranks)};
  if (limits.num_ranks > 2) groups.push_back(group_probes(limits, RankScope::Pair, 2));
  return interleave(groups);
}

std::vector<Probe> overlap_design(const ProbeLimits& limits) {
  std::vector<Probe> probes;
  if (limits.num_ranks < 2) return probes;
  for (const GemmType type : limits.facts.gemm_types)
    for (const Bytes bytes : {16_MiB, 1_MiB})
      if (!limits.is_quick || bytes == 16_MiB)
        probes.push_back({.family = ProbeFamily::Overlap, .num_ranks = limits.num_ranks, .type = type,
                          .shape = large_cube(limits, type), .bytes = bytes});
  return probes;
}

}  // namespace gpuplan
