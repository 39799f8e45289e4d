// Which links a transfer loads, and how much. Inside a machine: the widest way. Between machines: to the adapters
// nearest to the GPU, through leaf and spine, and from the adapters nearest to the other GPU.
#include <algorithm>

#include "base/error.h"
#include "base/narrow.h"
#include "cluster/topology.h"
#include "cluster/topology_graph.h"

namespace gpuplan {
namespace {

bool is_direct_way(const TopologyGraph& g, const Route& way) {
  return std::all_of(way.begin(), way.end(), [&](const LinkUse& use) {
    const LinkKind kind = g.links[use.link].kind;
    return kind == LinkKind::NvLink || kind == LinkKind::InfinityFabric;
  });
}

/// Between a GPU and one of its adapters, over host memory where nothing reaches a GPU directly.
void append_adapter_way(const TopologyGraph& g, Route& route, std::uint32_t from, std::uint32_t to,
                        std::uint32_t memory, double weight) {
  if (!g.machine.is_staged) {
    GPUPLAN_CHECK(g.append_way(route, from, to, weight, true), "a GPU reaches its adapters");
    return;
  }
  const bool there = g.append_way(route, from, memory, weight, true);
  GPUPLAN_CHECK(there && g.append_way(route, memory, to, weight, true), "adapters reach host memory");
}

/// Through the switches, from an adapter of one kept machine to one of another; `crosses`: the real machines are on two
/// leaves.
void append_network(const TopologyGraph& g, Route& route, std::size_t from_nic, std::size_t to_nic,
                    std::uint32_t from_leaf, std::uint32_t to_leaf, bool crosses, double weight) {
  route.push_back({g.network.nic_up[from_nic], weight});
  if (crosses) {
    route.push_back({g.network.leaf_up[from_leaf], weight});
    route.push_back({g.network.leaf_down[to_leaf], weight});
  }
  route.push_back({g.network.nic_down[to_nic], weight});
}

std::size_t nic_position(const MachineShape& machine, std::uint32_t nic) {
  return std::size_t(std::find(machine.nics.begin(), machine.nics.end(), nic) - machine.nics.begin());
}

/// Appends the way from a rank to one in another machine, `weight` of it, striped over the nearest adapters of both, or
/// over all by the GPUs that relay. `has_hops`: the way to these GPUs and from them counts; a ring takes it as one of
/// its own steps.
void append_between_machines(const TopologyGraph& g, Route& route, std::int64_t from, std::int64_t to, double weight,
                             bool has_hops) {
  const MachineShape& m = g.machine;
  const auto from_node = narrow<std::uint32_t>(g.kept_machine(g.node_of(from))),
             to_node = narrow<std::uint32_t>(g.kept_machine(g.node_of(to)));
  const auto from_local = std::size_t(g.local_of(from)), to_local = std::size_t(g.local_of(to));
  const bool is_relayed = !m.relay_of.empty();
  const auto &out = is_relayed ? m.nics : m.adapters_of[from_local],
             &in = is_relayed ? m.nics : m.adapters_of[to_local];
  GPUPLAN_CHECK(!out.empty() && !in.empty(), "machines of a cluster have adapters");
  const std::size_t stripes = std::max(out.size(), in.size());
  const std::uint32_t from_base = from_node * m.num_vertices, to_base = to_node * m.num_vertices;
  const bool crosses =
      !g.network.leaf_up.empty() && g.node_of(from) / g.network.leaf_nodes != g.node_of(to) / g.network.leaf_nodes;
  for (std::size_t i = 0; i < stripes; ++i) {
    const std::uint32_t a = out[i % out.size()], b = in[i % in.size()];
    const double part = is_relayed ? weight * m.relayed_share[i] : weight / double(stripes);
    const std::uint32_t leaves_by = is_relayed ? m.relay_of[i] : m.gpus[from_local],
                        enters_by = is_relayed ? m.relay_of[i] : m.gpus[to_local];
    if (has_hops)
      GPUPLAN_CHECK(g.append_way(route, from_base + m.gpus[from_local], from_base + leaves_by, part, true),
                    "GPUs of a board reach each other");
    append_adapter_way(g, route, from_base + leaves_by, from_base + a, from_base + m.memory_of[from_local], part);
    append_network(g, route, from_node * m.nics.size() + nic_position(m, a),
                   to_node * m.nics.size() + nic_position(m, b), g.network.leaf_of[from_node],
                   g.network.leaf_of[to_node], crosses, part);
    append_adapter_way(g, route, to_base + b, to_base + enters_by, to_base + m.memory_of[to_local], part);
    if (has_hops)
      GPUPLAN_CHECK(g.append_way(route, to_base + enters_by, to_base + m.gpus[to_local], part, true),
                    "GPUs of a board reach each other");
  }
}

/// Appends the way from a GPU to another of the same kept machine (or to one that it stands for itself: out and in
/// again).
void append_inside_machine(const TopologyGraph& g, Route& route, std::uint32_t from, std::uint32_t to, double weight) {
  const MachineShape& m = g.machine;
  if (from == to) {  // ranks folded into one: what it sends over the switch it also receives
    const std::uint32_t node = from / m.num_vertices;
    for (const std::uint32_t link : m.folded_way) route.push_back({link + node * m.num_links, weight});
    return;
  }
  Route way;
  const bool reaches = g.append_way(way, from, to, weight, true);
  if (m.is_staged && !(reaches && is_direct_way(g, way))) {
    way.clear();
    const std::uint32_t base = from / m.num_vertices * m.num_vertices;
    const auto local = std::size_t(std::find(m.gpus.begin(), m.gpus.end(), from - base) - m.gpus.begin());
    const std::uint32_t memory = base + m.memory_of[local];
    const bool there = g.append_way(way, from, memory, weight, true);
    GPUPLAN_CHECK(there && g.append_way(way, memory, to, weight, true), "GPUs reach host memory");
  } else {
    GPUPLAN_CHECK(reaches, "GPUs of a machine reach each other");
  }
  route.insert(route.end(), way.begin(), way.end());
}

/// Links that appear twice carry both; of a GPU that stands for all of its machine, what all send.
Route merged(const TopologyGraph& g, const Route& route) {
  Route out;
  for (const LinkUse& use : route) {
    const auto known = std::find_if(out.begin(), out.end(), [&](const LinkUse& u) { return u.link == use.link; });
    if (known == out.end())
      out.push_back(use);
    else
      known->weight += use.weight;
  }
  if (!g.sent_by_all.empty())
    for (LinkUse& use : out) use.weight *= g.sent_by_all[use.link];
  return out;
}

}  // namespace

Route Topology::route(std::int64_t from_rank, std::int64_t to_rank) const {
  const TopologyGraph& g = *graph_;
  const std::uint32_t from = gpu(from_rank), to = gpu(to_rank);
  Route route;
  if (from_rank == to_rank) return route;
  if (g.machine.num_vertices == 0)
    GPUPLAN_CHECK(g.append_way(route, from, to, 1, true), "GPUs reach each other");
  else if (g.node_of(from_rank) == g.node_of(to_rank))
    append_inside_machine(g, route, from, to, 1);
  else
    append_between_machines(g, route, from_rank, to_rank, 1, true);
  return merged(g, route);
}

Route Topology::host_route(std::int64_t rank, bool to_device) const {
  const TopologyGraph& g = *graph_;
  Route route;
  if (g.machine.num_vertices == 0) return route;
  const std::uint32_t device = gpu(rank), base = device / g.machine.num_vertices * g.machine.num_vertices;
  const std::uint32_t memory = base + g.machine.memory_of[std::size_t(g.local_of(rank))];
  GPUPLAN_CHECK(g.append_way(route, to_device ? memory : device, to_device ? device : memory, 1, false),
                "a GPU reaches its host");
  return route;
}

Route Topology::nvme_route(std::int64_t rank, bool to_nvme) const {
  const TopologyGraph& g = *graph_;
  Route route;
  if (g.machine.nvme_of.empty()) return route;
  const std::uint32_t base = gpu(rank) / g.machine.num_vertices * g.machine.num_vertices;
  const auto local = std::size_t(g.local_of(rank));
  const std::uint32_t memory = base + g.machine.memory_of[local], drive = base + g.machine.nvme_of[local];
  GPUPLAN_CHECK(g.append_way(route, to_nvme ? memory : drive, to_nvme ? drive : memory, 1, false),
                "a drive reaches its host");
  return route;
}

/// Derivation of the weights. g ranks per machine, n > g in the group; R bytes per second leave every member. NCCL runs
/// one ring per adapter, each with an equal part of the message; ring r enters a machine at rank r and leaves it at the
/// rank before (in ring order), so that of g rings every rank sends g - 1 to its neighbour in the machine and one to
/// the next machine: (g-1)/g of its bytes over the fabric, 1/g through its adapters. With fewer adapters than ranks the
/// rings leave at the ranks beside adapters; taking all ranks alike (1/g each, through the adapter that they share)
/// loads every adapter the same: k adapters carry g R / g = R together. So R <= k x adapter, as the bus bandwidth of
/// make_comm_model. Source: NVIDIA/nccl src/graph/{search,connect}.cc (one channel per net device, crossNic rotations).
Route Topology::ring_route(std::int64_t from, std::int64_t to, std::int64_t ranks_per_node, std::int64_t group_size,
                           std::span<const std::int64_t> members) const {
  const TopologyGraph& g = *graph_;
  const MachineShape& m = g.machine;
  const std::int64_t per_node = g.gpus_per_node,
                     nodes = ceil_div(group_size, std::max<std::int64_t>(1, ranks_per_node));
  if (m.num_vertices == 0 || group_size <= 1) return route(from, to);
  Route route_;
  const bool is_whole = ranks_per_node == per_node;
  const auto is_member = [&](std::uint32_t vertex, std::int64_t node) {
    if (g.graph[vertex].kind != VertexKind::Gpu) return false;
    return is_whole || std::any_of(members.begin(), members.end(),
                                   [&](std::int64_t rank) { return g.node_of(rank) == node && gpu(rank) == vertex; });
  };
  const auto append_local = [&](std::int64_t a, std::int64_t b, double weight) {
    double width = 0;
    std::vector<std::uint32_t> direct;
    if (m.has_striped_rings)
      for (const auto& edge : boost::make_iterator_range(boost::out_edges(gpu(a), g.graph))) {
        const auto link = get(boost::edge_index, g.graph, edge);
        if (is_member(g.ends[link].second, g.node_of(a))) direct.push_back(link), width += g.links[link].capacity.value;
      }
    if (direct.empty()) return append_inside_machine(g, route_, gpu(a), gpu(b), weight);
    for (const std::uint32_t link : direct) route_.push_back({link, weight * g.links[link].capacity.value / width});
  };
  const bool leaves = g.node_of(from) != g.node_of(to);
  if (nodes <= 1 || !m.has_ring_per_adapter) {
    if (leaves)
      append_between_machines(g, route_, from, to, 1, ranks_per_node == 1);
    else
      append_local(from, to, 1);
    return merged(g, route_);
  }
  // Where the part for the next machine goes: the same place there as `to` has here. Groups with several ranks per
  // machine lie in a row of machines, so that the next one is the neighbour, and the first follows the last. The last
  // row may have fewer: groups that do not end where a machine ends.
  const double share = 1.0 / double(ranks_per_node);
  const std::int64_t first = g.node_of(from) / nodes * nodes, in_row = std::min(nodes, num_nodes - first);
  const std::int64_t next = leaves ? g.node_of(to) : first + (g.node_of(from) - first + 1) % in_row;
  if (next == g.node_of(from)) {
    append_local(from, to, 1);
    return merged(g, route_);
  }
  const std::int64_t local_to = g.node_of(from) * per_node + to % per_node, remote_to = next * per_node + to % per_node;
  if (ranks_per_node > 1) append_local(from, local_to, 1 - share);
  append_between_machines(g, route_, from, remote_to, share, ranks_per_node == 1);
  return merged(g, route_);
}

BytesPerSec Topology::rate_of_groups(std::int64_t stride, std::int64_t ways) const {
  std::vector<double> loads(num_links());
  for (std::int64_t first = 0; first + stride * (ways - 1) < gpus_per_node();
       first += (first + 1) % stride == 0 ? stride * (ways - 1) + 1 : 1) {
    std::vector<std::int64_t> ranks;
    for (std::int64_t i = 0; i < ways; ++i) ranks.push_back(first + i * stride);
    const auto order = ring_order(ranks);
    for (std::size_t i = 0; i < order.size(); ++i)
      for (const LinkUse& use : ring_route(order[i], order[(i + 1) % order.size()], ways, ways, order))
        loads[use.link] += use.weight;
  }
  BytesPerSec rate;
  for (std::uint32_t i = 0; i < loads.size(); ++i)
    if (const BytesPerSec here = link(i).capacity / std::max(1e-12, loads[i]);
        loads[i] > 0 && (rate.value == 0 || here < rate))
      rate = here;
  return rate;
}

std::vector<std::int64_t> Topology::ring_order(std::span<const std::int64_t> ranks) const {
  const TopologyGraph& g = *graph_;
  std::vector<std::int64_t> order(ranks.begin(), ranks.end());
  std::ranges::sort(order);
  if (g.machine.num_vertices == 0 || g.machine.has_like_neighbours) return order;
  const auto width = [&](std::int64_t a, std::int64_t b) {
    double least = 1e300;
    const Route way = route(a, b);
    for (const LinkUse& use : way) least = std::min(least, g.links[use.link].capacity.value / use.weight);
    return std::pair(-least, way.size());
  };
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {  // the widest way among those left in the machine
    auto best = order.begin() + std::ptrdiff_t(i) + 1;
    if (g.node_of(*best) != g.node_of(order[i])) continue;
    auto best_width = width(order[i], *best);
    for (auto next = best + 1; next != order.end() && g.node_of(*next) == g.node_of(order[i]); ++next)
      if (const auto w = width(order[i], *next); w < best_width) best = next, best_width = w;
    std::rotate(order.begin() + std::ptrdiff_t(i) + 1, best, best + 1);
  }
  return order;
}

}  // namespace gpuplan
