// Alpha-beta cost of collectives along the axes of the mesh, on the links that their groups cross, and of copies to the host.
// Sources: formulas.md 12; the choice of algorithm and protocol: planner/collective.h.
#pragma once

#include <array>

#include "cluster/cluster_spec.h"
#include "cluster/profile.h"
#include "planner/collective.h"
#include "planner/strategy.h"

namespace gpuplan {

struct AxisLink {
  LinkCost link;
  std::int64_t ways = 1;
  bool crosses_nodes{};
};

/// Links per axis for a mesh laid on a cluster (pp outermost, then dp_replicate, dp_shard).
struct CommModel {
  std::array<AxisLink, kNumAxes> axes;
  BytesPerSec host_link;      // CopyIn and CopyOut
  BytesPerSec cpu_optimizer;  // Host optimizer steps, per rank
  BytesPerSec nvme;

  /// Ring all-gather or reduce-scatter of `message` bytes (the whole tensor): (n - 1) (alpha + S / (n B)).
  /// Cut into `num_messages`, each pays the latency.
  Seconds gather_time(Axis axis, Bytes message, std::int64_t num_messages = 1) const;
  /// Ring all-reduce: 2 (n - 1) (alpha + S / (n B)); B is the all-reduce bus bandwidth (NVLS where the fabric has it).
  Seconds all_reduce_time(Axis axis, Bytes message) const;
  Seconds send_time(Bytes message) const;
};

CommModel make_comm_model(const ClusterSpec& cluster, const Profile& profile, const Mesh& mesh);

}  // namespace gpuplan
