#include "planner/comm_model.h"

#include <algorithm>

namespace gpuplan {

Seconds CommModel::gather_time(Axis axis, Bytes message, std::int64_t num_messages) const {
  const AxisLink& a = axes[std::size_t(axis)];
  if (a.ways <= 1) return {};
  const double steps = double(a.ways - 1);
  return double(num_messages) * steps * a.link.latency +
         Seconds{steps / double(a.ways) * double(message.count) / a.link.bandwidth.value};
}

Seconds CommModel::all_reduce_time(Axis axis, Bytes message) const {
  const AxisLink& a = axes[std::size_t(axis)];
  if (a.ways <= 1) return {};
  const double steps = 2.0 * double(a.ways - 1);
  return steps * a.link.latency +
         Seconds{steps / double(a.ways) * double(message.count) / a.link.all_reduce_bandwidth.value};
}

Seconds CommModel::send_time(Bytes message) const {
  const LinkCost& link = axes[std::size_t(Axis::Pp)].link;
  return link.latency + message / link.bandwidth;
}

CommModel make_comm_model(const ClusterSpec& cluster, const Profile& profile, const Mesh& mesh) {
  CommModel m;
  m.host_link = cluster.host_link * profile.host_link_efficiency;
  m.cpu_optimizer = profile.cpu_optimizer_bandwidth;
  m.nvme = BytesPerSec{std::min(m.host_link.value, profile.nvme_bandwidth.value)};
  // NVLink figures of the catalogue are plain nccl-tests rings; training reaches a share of them.
  const bool is_nvlink = cluster.fabric == FabricKind::NvSwitch || cluster.fabric == FabricKind::NvLinkMesh ||
                         cluster.fabric == FabricKind::NvLinkBridge;
  LinkCost intra = cluster.intra;
  if (is_nvlink)
    intra.bandwidth = intra.bandwidth * profile.nvlink_efficiency,
    intra.all_reduce_bandwidth = intra.all_reduce_bandwidth * profile.nvlink_efficiency;
  // A group of an axis spans ways x stride consecutive ranks: inside a node unless that is wider than one. A ring through
  // whole nodes uses the network adapters of all its ranks there; groups that own one rank per node share them.
  const auto place = [&](Axis axis, std::int64_t stride) {
    AxisLink& a = m.axes[std::size_t(axis)];
    a.ways = mesh.ways(axis);
    a.crosses_nodes = a.ways > 1 && stride * a.ways > cluster.gpus_per_node;
    a.link = a.crosses_nodes ? cluster.inter : intra;
    if (!a.crosses_nodes) return;
    const std::int64_t ranks_per_node =
        std::clamp<std::int64_t>(cluster.gpus_per_node / std::max<std::int64_t>(1, stride), 1, a.ways);
    const BytesPerSec adapters = cluster.inter.bandwidth * double(ranks_per_node);
    a.link.bandwidth = a.link.all_reduce_bandwidth =
        ranks_per_node > 1 ? std::min(adapters, intra.bandwidth) : adapters;
  };
  place(Axis::DpShard, 1);
  place(Axis::DpReplicate, mesh.dp_shard);
  place(Axis::Pp, mesh.data_parallel());
  return m;
}

}  // namespace gpuplan
