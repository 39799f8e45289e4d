// How a collective is carried out: NCCL's choice of algorithm, as what the networks need of it, and how many bytes each
// rank sends.
#pragma once

#include <deque>
#include <vector>

#include "planner/comm_model.h"
#include "sim/network.h"

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

/// Gives what an instruction asks for. Requires: is_collective(op).
constexpr CollectiveKind collective_of(OpCode op) {
  return op == OpCode::AllGather       ? CollectiveKind::AllGather
         : op == OpCode::ReduceScatter ? CollectiveKind::ReduceScatter
         : op == OpCode::AllToAll      ? CollectiveKind::AllToAll
                                       : CollectiveKind::AllReduce;
}

struct Lowering {
  Algorithm algorithm{};
  Seconds base, all_steps;  // latencies: once per piece, of all steps together
  double wire_bytes{};      // payload that each rank sends (mean), with what the protocol adds and the switch saves
  Seconds wire_time;        // what these take on the links of the group
  Bytes payload;            // of the whole call
  Seconds time;             // of the whole call, when nothing else is under way
};

/// Of a call cut into call.num_messages pieces; nothing where a rank is alone.
Lowering lower(const CollectiveCall& call, const CommGroup& communicator, const CommModel& comm);

/// The lowering of every kind of call, chosen when it is first asked for: layers repeat.
class Lowerings {
 public:
  Lowerings(std::span<const CommGroup> communicators, const CommModel& comm)
      : communicators_(communicators),
        comm_(comm),
        known_(communicators.size()) {}

  const Lowering& of(const CollectiveCall& call);

 private:
  struct Known {
    CollectiveCall call;
    Lowering lowering;
  };
  std::span<const CommGroup> communicators_;
  const CommModel& comm_;
  std::vector<std::deque<Known>> known_;  // by communicator
};

/// Bytes that each rank sent to others.
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
