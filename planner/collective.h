// Which algorithm and protocol NCCL takes for a collective, and what it costs without contention. The closed forms stand here
// once; planner/comm_model asks them for a time, sim/flow_network lowers the same choice to messages.
// Source: NVIDIA/nccl src/graph/tuning.cc, constants in data/nccl.yaml with their version.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/units.h"
#include "cluster/cluster_spec.h"

namespace gpuplan {

enum class CollectiveKind : std::uint8_t { AllGather, ReduceScatter, AllReduce, Broadcast, SendRecv };
enum class Algorithm : std::uint8_t { Ring, Tree, Nvls };
enum class Protocol : std::uint8_t { Simple, LL128, LL };
std::string_view to_string(CollectiveKind kind);
std::string_view to_string(Algorithm algorithm);
std::string_view to_string(Protocol protocol);

/// Where the ranks of a group are.
struct GroupShape {
  std::int64_t size = 1, nodes = 1;  // size / nodes of them in each machine
  std::int64_t ranks_per_node() const { return nodes > 0 ? size / nodes : size; }
};

/// A choice and its cost: time = base + sum of step latencies + wire bytes / bandwidth.
struct CollectiveChoice {
  Algorithm algorithm{};
  Protocol protocol{};
  Seconds base;                         // once per call
  Seconds intra_step, inter_step;       // latency of a step inside a machine, between machines
  std::int64_t intra_steps{}, inter_steps{};
  double wire_factor = 1;               // bytes on the wire per byte of payload: the protocol's flags, NVLS's advantage
  Bytes sent;                           // payload that each rank sends (mean)
  Seconds time;
};

}  // namespace gpuplan
