// Collectives over sizes and groups, and products that run beside one.
#include <algorithm>
#include <array>
#include <cmath>

#include "calibrate/plan.h"

namespace gpuplan {
namespace {

using namespace literals;

/// Most telling first: a quick calibration has these alone.
constexpr std::array kQuickSizes{16_MiB, 1_KiB, 256_KiB, 64_MiB, 16_KiB, 1_MiB};
/// All: powers of two and the middles between them, as libraries switch algorithms at sizes nobody knows.
constexpr Bytes kLeastSize = 1_KiB, kMostSize = 1_GiB, kMostSizeOnCpu = 64_MiB, kMostSizeInQuick = 16_MiB;

constexpr std::array kKinds{CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter,
                            CollectiveKind::Broadcast, CollectiveKind::SendRecv,  CollectiveKind::AllToAll};

std::vector<Bytes> sizes_of(const ProbeLimits& limits) {
  std::vector<Bytes> sizes(kQuickSizes.begin(), kQuickSizes.end());
  for (Bytes power = kLeastSize; power <= kMostSize && !limits.is_quick; power = power * 2)
    for (const Bytes size : {power, Bytes{power.count / 2 * 3}})
      if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
  const Bytes most = !limits.is_cpu() ? kMostSize : limits.is_quick ? kMostSizeInQuick : kMostSizeOnCpu;
  std::erase_if(sizes, [&](Bytes size) { return size > most || 2 * size > limits.most_memory(); });
  return sizes;
}

std::vector<Probe> group_probes(const ProbeLimits& limits, RankScope scope, std::int64_t group_ranks) {
  std::vector<Probe> probes;
  for (const Bytes size : sizes_of(limits))
    for (const CollectiveKind kind : kKinds)
      probes.push_back({.family = ProbeFamily::Collective,
                        .num_ranks = limits.num_ranks,
                        .collective = kind,
                        .scope = scope,
                        .group_ranks = group_ranks,
                        .bytes = size});
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
        probes.push_back({.family = ProbeFamily::Overlap,
                          .num_ranks = limits.num_ranks,
                          .type = type,
                          .shape = large_cube(limits, type),
                          .bytes = bytes});
  return probes;
}

}  // namespace gpuplan
