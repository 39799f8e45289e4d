// Cost of collectives along the axes of the mesh, on the links that their groups cross, and of copies to the host.
// The choice of algorithm and protocol and its time: planner/collective.h.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "cluster/cluster_spec.h"
#include "cluster/profile/profile.h"
#include "planner/collective.h"
#include "planner/strategy.h"

namespace gpuplan {

/// Links of the groups of an axis. With `link` and `ways` alone it is a plain ring; make_comm_model fills in the rest.
struct AxisLink {
  LinkCost link;  // of the whole group: the slowest level
  std::int64_t ways = 1;
  bool crosses_nodes{};
  GroupLinks group;
  CollectiveLines gather, all_reduce, all_to_all;  // gather: all-gather and reduce-scatter, which cost the same
  std::array<const CollectiveCurve*, kCollectiveKinds.size()>
      curves{};                       // by kind: as `calibrate` measured them; null: not
  std::optional<Axis> same_links_as;  // another axis, whose collectives go over the same links of every GPU
  std::int64_t ranks_at_once = 0, host_cores = 0;  // of CPU ranks, whose cores copy what they exchange; 0: others
  Seconds
      hand_over;  // to a stream that stood still, and back, beside the time of what it communicates; 0: not measured
};

/// Links per axis for a mesh laid on a cluster.
struct CommModel {
  std::array<AxisLink, kNumAxes> axes;
  BytesPerSec host_link;      // CopyIn and CopyOut
  BytesPerSec cpu_optimizer;  // host optimizer steps, of one rank beside the others of its machine
  BytesPerSec nvme;
  std::shared_ptr<const Measured> measured;  // keeps the curves

  /// All-gather or reduce-scatter of `message` bytes (the whole tensor), cut into `num_messages` calls.
  Seconds gather_time(Axis axis, Bytes message, std::int64_t num_messages = 1) const;
  Seconds all_reduce_time(Axis axis, Bytes message) const;
  /// Every rank has `message` bytes, an equal part of which goes to each.
  Seconds all_to_all_time(Axis axis, Bytes message) const;
  /// The axis that stands for all whose collectives use the same links: side by side they take as long as in turn.
  Axis queue_of(Axis axis) const { return axes[std::size_t(axis)].same_links_as.value_or(axis); }
  /// Gives what a collective takes besides, unless its stream was busy until it began.
  Seconds hand_over(Axis axis) const { return axes[std::size_t(axis)].hand_over; }
  /// Time to a neighbour along the axis: alpha + S / B.
  Seconds send_time(Axis axis, Bytes message) const;
  LinkCost send_link(Axis axis, Bytes message) const;
  /// Gives what NCCL does with one call of `message` bytes, with its parts.
  CollectiveChoice choose(CollectiveKind kind, Axis axis, Bytes message) const;
};

/// Says whether the profile holds collectives measured on links like those of this cluster.
bool has_measured_links(const Profile& profile, const ClusterSpec& cluster);

CommModel make_comm_model(const ClusterSpec& cluster, const Profile& profile, const Mesh& mesh);

}  // namespace gpuplan
