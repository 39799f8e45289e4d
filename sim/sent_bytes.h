// How many bytes each rank sent to others: the communication volume that formulas.md 11 states per strategy.
#pragma once

#include <vector>

#include "base/units.h"
#include "planner/collective.h"

namespace gpuplan {

/// Payload that each of `size` ranks sends in a ring: (n - 1) of n shards to gather or to reduce and scatter, twice that to
/// all-reduce. Of a broadcast the mean: all but the last pass the message on. Source: nccl-tests PERFORMANCE.md.
constexpr Bytes bytes_sent_by_member(CollectiveKind kind, Bytes message, std::int64_t size) {
  if (kind == CollectiveKind::SendRecv) return message;
  const Bytes once{std::int64_t(__int128_t(message.count) * (size - 1) / size)};
  return kind == CollectiveKind::AllReduce ? 2 * once : once;
}

class SentBytes {
 public:
  void add(std::int64_t rank, Bytes sent) {
    if (std::size_t(rank) >= by_rank_.size()) by_rank_.resize(std::size_t(rank) + 1);
    by_rank_[std::size_t(rank)] += sent;
  }
  Bytes of(std::int64_t rank) const { return std::size_t(rank) < by_rank_.size() ? by_rank_[std::size_t(rank)] : Bytes{}; }

 private:
  std::vector<Bytes> by_rank_;
};

}  // namespace gpuplan
