// Which algorithm and protocol NCCL takes for a collective, and what it costs without contention. The closed forms
// stand here once; planner/comm_model asks them for a time, sim/flow_network lowers the same choice to messages.
// Source: NVIDIA/nccl src/graph/tuning.cc, constants in data/nccl.yaml with their version; how near:
// docs/simulation.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/operation_kinds.h"
#include "base/units.h"
#include "cluster/cluster_spec.h"
#include "cluster/nccl_table.h"

namespace gpuplan {

/// Says where the ranks of a group are.
struct GroupShape {
  std::int64_t size = 1, nodes = 1;
  std::int64_t in_node = 0;  // of them in each machine but the last, which may have fewer; 0: equal shares
  std::int64_t ranks_per_node() const {
    return in_node > 0 ? in_node : ceil_div(size, std::max<std::int64_t>(1, nodes));
  }
};

/// Holds what the collectives of a group run over.
struct GroupLinks {
  GroupShape shape;
  BytesPerSec bandwidth, all_reduce_bandwidth;  // bus bandwidth of large messages, as LinkCost states it
  Seconds intra_latency, inter_latency;         // per ring step of large messages
  std::optional<NcclLink> inside;               // none: not NCCL, a plain ring of those latencies
  NcclGeneration generation = NcclGeneration::Ampere;
  bool has_switch = false;  // NVSwitch: from Hopper on it reduces (NVLS)
};

/// A choice and its cost: time = base + sum of step latencies + sent x wire_factor / bandwidth of the links.
struct CollectiveChoice {
  Algorithm algorithm{};
  Protocol protocol{};
  Seconds base;                    // once per call, pipeline fill included
  Seconds intra_step, inter_step;  // latency of a step inside a machine, between machines
  std::int64_t intra_steps{}, inter_steps{};
  double wire_factor = 1;  // bytes on the wire per byte of payload: the protocol's flags, NVLS's advantage
  Bytes sent;              // payload that each rank sends (mean)
  Seconds time;
};

/// One algorithm and protocol: NCCL's time of S bytes is latency + S x seconds_per_byte.
struct CollectiveLine {
  Algorithm algorithm{};
  Protocol protocol{};
  double latency{}, seconds_per_byte{};
};

/// The lines among which NCCL takes the fastest: made once per axis and kind, asked for every message. Not for
/// SendRecv, which NCCL does not tune: CommModel::send_link.
class CollectiveLines {
 public:
  CollectiveLines() = default;  // of a single rank: costs nothing
  CollectiveLines(CollectiveKind kind, const GroupLinks& links);

  bool is_empty() const { return size_ == 0; }
  /// Gives what a message of the whole tensor takes.
  Seconds time(Bytes message) const;
  CollectiveLine fastest(Bytes message) const { return lines_[fastest_index(message)]; }

 private:
  std::size_t fastest_index(Bytes message) const;
  void add(CollectiveLine line) { lines_[size_++] = line; }

  std::array<CollectiveLine, 7> lines_{};  // ring and tree in three protocols each, NVLS
  std::size_t size_ = 0;
  bool is_nccl_ = false;
};

/// The same choice with its parts.
CollectiveChoice choose_collective(CollectiveKind kind, const GroupLinks& links, Bytes message);

/// Time for filling the pipeline of chunks, which NCCL's own model leaves out.
///
/// A message goes in k chunks through steps of total latency L; each chunk costs a hand-shake a on top of its wire time
/// x / k, so that filling takes L + x / k and the rest (k - 1) (a + x / k); k = sqrt(x L / a) chunks are best and leave
/// 2 sqrt(handshake L x) beyond L + x, with handshake = a / L. Chunks cannot outgrow NCCL's buffers: beyond
/// x = saturation x L their size stands still, and what they cost is in the measured bandwidth. LL has no hand-shakes.
/// `wire` is x, `latency` is L. Both numbers: data/nccl.yaml, pipeline_fill, fitted over six machines together.
Seconds pipeline_fill(Protocol protocol, Seconds latency, Seconds wire);

}  // namespace gpuplan
