// How many bytes each rank sent to others: the communication volume of arXiv 1910.02054, section 7, per strategy.
#pragma once

#include <vector>

#include "base/units.h"
#include "planner/collective.h"

namespace gpuplan {

/// Steps of a ring of `size` ranks: size - 1 to gather, scatter or pass on, twice that to all-reduce.
constexpr std::int64_t ring_steps(CollectiveKind kind, std::int64_t size) {
  return kind == CollectiveKind::AllReduce ? 2 * (size - 1) : size - 1;
}

/// Payload that each of `size` ranks sends in a ring: a shard per step; of a broadcast the mean, for all but the last
/// pass on the whole message. Source: nccl-tests PERFORMANCE.md.
constexpr Bytes bytes_sent_by_member(CollectiveKind kind, Bytes message, std::int64_t size) {
  return {std::int64_t(__int128_t(message.count) * ring_steps(kind, size) / size)};
}

class SentBytes {
 public:
  void add(std::int64_t rank, Bytes sent) {
    if (std::size_t(rank) >= by_rank_.size()) by_rank_.resize(std::size_t(rank) + 1);
    by_rank_[std::size_t(rank)] += sent;
  }
  Bytes of(std::int64_t rank) const {
    return std::size_t(rank) < by_rank_.size() ? by_rank_[std::size_t(rank)] : Bytes{};
  }

 private:
  std::vector<Bytes> by_rank_;
};

}  // namespace gpuplan
