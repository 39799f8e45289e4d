#include "planner/comm_model.h"

#include <algorithm>
#include <cmath>

#include "cluster/cluster_spec.h"
#include "cluster/links.h"
#include "cluster/topology_builder.h"

namespace gpuplan {

namespace {

/// The model of an axis that nobody laid on a cluster: one level, as `link` says.
GroupLinks group_of(const AxisLink& a) {
  if (a.group.shape.size == a.ways) return a.group;
  return {.shape = {.size = a.ways},
          .bandwidth = a.link.bandwidth,
          .all_reduce_bandwidth = a.link.all_reduce_bandwidth,
          .intra_latency = a.link.latency,
          .inter_latency = a.link.latency};
}

/// A measured curve at the number of ranks that the axis has: latency grows with the steps of a ring, bus bandwidth
/// stays.
struct CurveTime {
  Seconds latency, wire;
};

/// Ranks that share a core copy one after the other: how much longer than when as many as the curve's did.
double crowding(const CollectiveCurve& curve, const AxisLink& a) {
  if (a.host_cores == 0) return 1;
  return oversubscription(a.ranks_at_once, a.host_cores) / oversubscription(curve.num_ranks, a.host_cores);
}

CurveTime at(const CollectiveCurve& curve, const AxisLink& a, std::int64_t ways, Bytes message) {
  const CurveSegment& segment = curve.segment(message);
  const double steps = double(ways - 1) / double(std::max<std::int64_t>(1, curve.num_ranks - 1));
  const double bus = bus_factor(curve.kind, ways) / bus_factor(curve.kind, curve.num_ranks);
  const Seconds total = curve.time(message), latency{std::min(segment.alpha.value, total.value)};
  const double longer = crowding(curve, a);
  return {longer * steps * latency, longer * bus * (total - latency)};
}

const CollectiveCurve* curve_of(const AxisLink& a, CollectiveKind kind) { return a.curves[std::size_t(kind)]; }

Seconds time_of(const AxisLink& a, const CollectiveLines& lines, CollectiveKind kind, Bytes message) {
  if (const CollectiveCurve* curve = curve_of(a, kind)) {
    const CurveTime point = at(*curve, a, a.ways, message);
    return point.latency + point.wire;
  }
  return lines.is_empty() ? CollectiveLines(kind, group_of(a)).time(message) : lines.time(message);
}

/// The library's choice with the time that was measured: its steps keep their latency as far as the measured one
/// allows.
CollectiveChoice as_measured(CollectiveChoice c, const AxisLink& a, const CollectiveCurve& curve, Bytes message) {
  const CurveTime point = at(curve, a, a.ways, message);
  const Seconds steps = double(c.intra_steps) * c.intra_step + double(c.inter_steps) * c.inter_step;
  if (steps > point.latency) {
    const double share = point.latency / steps;
    c.intra_step = share * c.intra_step, c.inter_step = share * c.inter_step;
  }
  c.base = std::max(Seconds{}, point.latency - steps);
  if (c.sent.count > 0)
    c.wire_factor = point.wire.value * a.link.bandwidth.value / double(c.sent.count);
  else
    c.base += point.wire;
  c.time = point.latency + point.wire;
  return c;
}

/// The sync latency beside the time of its all-reduce.
Seconds hand_over_of(const Measured& measured, const AxisLink& a) {
  const ScalarFit* const sync = measured.sync_latency_of(a.ranks_at_once);
  const CollectiveCurve* const curve = curve_of(a, CollectiveKind::AllReduce);
  if (!sync || !curve) return {};
  const CurveTime point = at(*curve, a, a.ways, kSyncMessage);
  return std::max(Seconds{}, Seconds{sync->value.value} - point.latency - point.wire);
}

/// The tuner's link of a group; machines of one GPU have no fabric, but a network that NCCL knows.
std::optional<NcclLink> link_inside(const ClusterSpec& cluster) {
  const bool is_lone = cluster.gpus_per_node == 1 && cluster.num_gpus() > 1 && !cluster.gpus.front().is_cpu;
  return is_lone ? NcclLink::Pci : nccl_link(cluster.fabric);
}

/// Two axes share the links of a GPU where their groups reach the same rate, within this share. Groups that reach less
/// meet further on, and leave room at the GPU for others.
constexpr double kSamePlace = 0.01;

/// The rate of rings of `ways` GPUs, `stride` apart in a machine, when all of these groups run at once. It differs from
/// that of one ring through the machine where a mesh gives a group the links among its members alone, and where rings
/// across sockets meet on the link between them.
BytesPerSec rate_inside(const ClusterSpec& cluster, const Profile& profile, std::int64_t stride, std::int64_t ways,
                        BytesPerSec ring) {
  const bool is_alike = cluster.fabric == FabricKind::NvSwitch || cluster.fabric == FabricKind::SharedMemory ||
                        cluster.fabric == FabricKind::None;
  if (is_alike || ways <= 1 || stride * ways > cluster.gpus_per_node || (stride == 1 && ways == cluster.gpus_per_node))
    return ring;
  const std::vector<std::int32_t> one_machine(std::size_t(cluster.num_nodes()), 0);
  return build_topology(cluster, profile, {.node_stands_for = one_machine}).rate_of_groups(stride, ways);
}

/// An axis before this one whose collectives, like its own, run beside the pass and over the same links of every GPU.
/// In a mesh every group has links of its own.
std::optional<Axis> axis_on_same_links(const CommModel& m, const ClusterSpec& cluster, const AxisRow& row) {
  const AxisLink& own = m.axes[std::size_t(row.axis)];
  const bool is_mesh = cluster.fabric == FabricKind::NvLinkMesh || cluster.fabric == FabricKind::InfinityFabric;
  if (row.divides_layer || (is_mesh && !own.crosses_nodes)) return {};
  for (const AxisRow& before : kAxes) {
    if (before.axis == row.axis) break;
    const AxisLink& other = m.axes[std::size_t(before.axis)];
    if (!before.divides_layer && other.ways > 1 && other.crosses_nodes == own.crosses_nodes &&
        std::abs(other.link.bandwidth / own.link.bandwidth - 1) < kSamePlace)
      return m.queue_of(before.axis);
  }
  return {};
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

Seconds CommModel::all_to_all_time(Axis axis, Bytes message) const {
  const AxisLink& a = axes[std::size_t(axis)];
  return a.ways <= 1 ? Seconds{} : time_of(a, a.all_to_all, CollectiveKind::AllToAll, message);
}

LinkCost CommModel::send_link(Axis axis, Bytes message) const {
  const AxisLink& a = axes[std::size_t(axis)];
  const CollectiveCurve* curve = curve_of(a, CollectiveKind::SendRecv);
  if (!curve || message.count <= 0) return a.link;
  const CurveTime point = at(*curve, a, 2, message);
  LinkCost link = a.link;
  link.latency = point.latency;
  link.bandwidth = link.all_reduce_bandwidth = message / std::max(point.wire, Seconds{1e-12});
  return link;
}

Seconds CommModel::send_time(Axis axis, Bytes message) const {
  const LinkCost link = send_link(axis, message);
  return link.latency + message / link.bandwidth;
}

CollectiveChoice CommModel::choose(CollectiveKind kind, Axis axis, Bytes message) const {
  const AxisLink& a = axes[std::size_t(axis)];
  const CollectiveChoice choice = choose_collective(kind, group_of(a), message);
  const CollectiveCurve* curve = curve_of(a, kind);
  return curve && a.ways > 1 ? as_measured(choice, a, *curve, message) : choice;
}

bool has_measured_links(const Profile& profile, const ClusterSpec& cluster) {
  if (!profile.measured || profile.measured->collectives.empty() || cluster.is_mixed()) return false;
  const MeasuredOn& on = profile.measured->on;
  return on.gpu == cluster.gpus.front().id && on.fabric == to_string(cluster.fabric);
}

CommModel make_comm_model(const ClusterSpec& cluster, const Profile& profile, const Mesh& mesh) {
  CommModel m;
  m.host_link = reached_host_link(cluster, profile);
  m.cpu_optimizer = profile.cpu_optimizer_bandwidth;
  // the drives of a machine are shared by its ranks
  const double drives = double(std::max<std::int64_t>(1, cluster.layout.num_nvme)) /
                        double(std::max<std::int64_t>(1, cluster.ranks_per_node(mesh.world())));
  m.nvme = BytesPerSec{std::min(m.host_link.value, drives * profile.nvme_bandwidth.value)};
  const bool is_measured = has_measured_links(profile, cluster);
  if (is_measured) m.measured = profile.measured;
  const LinkCost intra = reached_inside(cluster, profile);
  // The older of the first and the last GPU: a pass over a thousand of them would cost as much as the plan.
  const NcclGeneration generation =
      std::min(nccl_generation(cluster.gpus.front()), nccl_generation(cluster.gpus.back()));
  // A group of an axis spans ways x stride consecutive ranks: inside a node unless that is wider than one. A ring
  // through whole nodes uses the network adapters of all its ranks there; groups that own one rank per node share them.
  for (const AxisRow& row : kAxes) {
    const std::int64_t stride = mesh.stride(row.axis);
    AxisLink& a = m.axes[std::size_t(row.axis)];
    a.ways = mesh.ways(row.axis);
    a.crosses_nodes = a.ways > 1 && stride * a.ways > cluster.gpus_per_node;
    a.link = a.crosses_nodes ? cluster.inter : intra;
    if (!a.crosses_nodes && a.ways > 1 && !row.is_pipeline) {
      a.link.bandwidth = rate_inside(cluster, profile, stride, a.ways, intra.bandwidth);
      a.link.all_reduce_bandwidth = intra.all_reduce_bandwidth * (a.link.bandwidth / intra.bandwidth);
    }
    const std::int64_t ranks_per_node =
        a.crosses_nodes ? std::clamp<std::int64_t>(cluster.gpus_per_node / std::max<std::int64_t>(1, stride), 1, a.ways)
                        : a.ways;
    const BytesPerSec adapters = cluster.inter.bandwidth * double(ranks_per_node);
    if (a.crosses_nodes)
      a.link.bandwidth = a.link.all_reduce_bandwidth =
          ranks_per_node > 1 ? std::min(adapters, intra.bandwidth) : adapters;
    if (a.ways <= 1) continue;
    a.group = {.shape = {.size = a.ways, .nodes = ceil_div(a.ways, ranks_per_node), .in_node = ranks_per_node},
               .bandwidth = a.link.bandwidth,
               .all_reduce_bandwidth = a.link.all_reduce_bandwidth,
               .intra_latency = intra.latency,
               .inter_latency = cluster.inter.latency,
               .inside = link_inside(cluster),
               .generation = generation,
               .has_switch = cluster.fabric == FabricKind::NvSwitch};
    if (is_measured && a.group.shape.nodes == 1)
      for (const CollectiveKind kind : kCollectiveKinds)
        a.curves[std::size_t(kind)] = profile.measured->curve_of(kind, row.is_pipeline ? 2 : a.ways);
    if (row.is_pipeline) continue;  // stages send and receive, and take turns
    a.same_links_as = axis_on_same_links(m, cluster, row);
    a.ranks_at_once = cluster.ranks_per_node(mesh.world()), a.host_cores = cluster.host_cores;
    if (is_measured && a.group.shape.nodes == 1) a.hand_over = hand_over_of(*profile.measured, a);
    a.gather = {CollectiveKind::AllGather, a.group};
    a.all_reduce = {CollectiveKind::AllReduce, a.group};
    a.all_to_all = {CollectiveKind::AllToAll, a.group};
  }
  return m;
}

}  // namespace gpuplan
