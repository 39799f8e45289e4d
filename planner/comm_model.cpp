#include "planner/comm_model.h"

#include <algorithm>

#include "cluster/links.h"

namespace gpuplan {

namespace {

/// Of an axis that nobody laid on a cluster: one level, as `link` says.
GroupLinks group_of(const AxisLink& a) {
  if (a.group.shape.size == a.ways) return a.group;
  return {.shape = {.size = a.ways},
          .bandwidth = a.link.bandwidth,
          .all_reduce_bandwidth = a.link.all_reduce_bandwidth,
          .intra_latency = a.link.latency,
          .inter_latency = a.link.latency};
}

Seconds time_of(const AxisLink& a, const CollectiveLines& lines, CollectiveKind kind, Bytes message) {
  return lines.is_empty() ? CollectiveLines(kind, group_of(a)).time(message) : lines.time(message);
}

/// The tuner's link of a group; machines of one GPU have no fabric, but a network that NCCL knows.
std::optional<NcclLink> link_inside(const ClusterSpec& cluster) {
  const bool is_lone = cluster.gpus_per_node == 1 && cluster.num_gpus() > 1 && !cluster.gpus.front().is_cpu;
  return is_lone ? NcclLink::Pci : nccl_link(cluster.fabric);
}

}  // namespace

Seconds CommModel::gather_time(Axis axis, Bytes message, std::int64_t num_messages) const {
  const AxisLink& a = axes[std::size_t(axis)];
  if (a.ways <= 1) return {};
  return double(num_messages) * time_of(a, a.gather, CollectiveKind::AllGather, {message.count / num_messages});
}

Seconds CommModel::all_reduce_time(Axis axis, Bytes message) const {
  const AxisLink& a = axes[std::size_t(axis)];
  return a.ways <= 1 ? Seconds{} : time_of(a, a.all_reduce, CollectiveKind::AllReduce, message);
}

Seconds CommModel::send_time(Bytes message) const {
  const LinkCost& link = axes[std::size_t(Axis::Pp)].link;
  return link.latency + message / link.bandwidth;
}

CollectiveChoice CommModel::choose(CollectiveKind kind, Axis axis, Bytes message) const {
  return choose_collective(kind, group_of(axes[std::size_t(axis)]), message);
}

CommModel make_comm_model(const ClusterSpec& cluster, const Profile& profile, const Mesh& mesh) {
  CommModel m;
  m.host_link = reached_host_link(cluster, profile);
  m.cpu_optimizer = profile.cpu_optimizer_bandwidth;
  m.nvme = BytesPerSec{std::min(m.host_link.value, profile.nvme_bandwidth.value)};
  const LinkCost intra = reached_inside(cluster, profile);
  // The older of the first and the last GPU: a pass over a thousand of them would cost as much as the plan.
  const NcclGeneration generation =
      std::min(nccl_generation(cluster.gpus.front()), nccl_generation(cluster.gpus.back()));
  // A group of an axis spans ways x stride consecutive ranks: inside a node unless that is wider than one. A ring through
  // whole nodes uses the network adapters of all its ranks there; groups that own one rank per node share them.
  const auto place = [&](Axis axis) {
    const std::int64_t stride = mesh.stride(axis);
    AxisLink& a = m.axes[std::size_t(axis)];
    a.ways = mesh.ways(axis);
    a.crosses_nodes = a.ways > 1 && stride * a.ways > cluster.gpus_per_node;
    a.link = a.crosses_nodes ? cluster.inter : intra;
    const std::int64_t ranks_per_node =
        a.crosses_nodes ? std::clamp<std::int64_t>(cluster.gpus_per_node / std::max<std::int64_t>(1, stride), 1, a.ways)
                        : a.ways;
    const BytesPerSec adapters = cluster.inter.bandwidth * double(ranks_per_node);
    if (a.crosses_nodes)
      a.link.bandwidth = a.link.all_reduce_bandwidth =
          ranks_per_node > 1 ? std::min(adapters, intra.bandwidth) : adapters;
    if (a.ways <= 1) return;
    a.group = {.shape = {.size = a.ways, .nodes = ceil_div(a.ways, ranks_per_node)},
               .bandwidth = a.link.bandwidth,
               .all_reduce_bandwidth = a.link.all_reduce_bandwidth,
               .intra_latency = intra.latency,
               .inter_latency = cluster.inter.latency,
               .inside = link_inside(cluster),
               .generation = generation,
               .has_switch = cluster.fabric == FabricKind::NvSwitch};
    if (axis == Axis::Pp) return;  // stages send and receive
    a.gather = {CollectiveKind::AllGather, a.group};
    a.all_reduce = {CollectiveKind::AllReduce, a.group};
  };
  place(Axis::DpShard);
  place(Axis::DpReplicate);
  place(Axis::Pp);
  return m;
}

}  // namespace gpuplan
