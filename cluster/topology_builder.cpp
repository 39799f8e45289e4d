#include "cluster/topology_builder.h"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "base/narrow.h"
#include "cluster/machine.h"
#include "cluster/machine_builder.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kUsualLeafNodes = 32;  // machines on a leaf switch when nobody says

/// The real machine that each kept one is.
std::vector<std::int64_t> kept_machines(const TopologyGraph& graph, std::int64_t num_nodes) {
  std::vector<std::int64_t> kept;
  for (std::int64_t node = 0; node < num_nodes; ++node)
    if (graph.kept_machine(node) == std::int64_t(kept.size())) kept.push_back(node);
  return kept;
}

void copy_machine(Topology& topology, const MachineShape& shape, std::int64_t copy) {
  const std::uint32_t base = narrow<std::uint32_t>(copy) * shape.num_vertices;
  for (std::uint32_t v = 0; v < shape.num_vertices; ++v) topology.add_vertex(topology.vertex(v));
  for (std::uint32_t l = 0; l < shape.num_links; ++l) {
    TopologyLink link = topology.link(l);
    topology.add_link(base + topology.source(l), base + topology.target(l), std::move(link));
  }
}

/// Messages of a ring over all GPUs of machine 0 that cross each link.
std::vector<double> ring_loads(const Topology& topology) {
  std::vector<std::int64_t> ranks(std::size_t(topology.gpus_per_node()));
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = std::int64_t(i);
  const auto order = topology.ring_order(ranks);
  std::vector<double> loads(topology.num_links());
  for (std::size_t i = 0; i < order.size(); ++i)
    for (const LinkUse& use : topology.route(order[i], order[(i + 1) % order.size()])) loads[use.link] += use.weight;
  return loads;
}

struct Calibration {
  TopologyGraph& graph;
  const std::vector<double>& loads;
  BytesPerSec target;

  /// Makes room for what a ring was measured to reach with this weight.
  void raise(LinkKind kind, double weight) {
    for (std::size_t i = 0; i < loads.size(); ++i)
      if (graph.links[i].kind == kind)
        graph.links[i].capacity = std::max(graph.links[i].capacity, target * (loads[i] * weight));
  }

  double fitting_weight(LinkKind kind) const {
    double weight = std::numeric_limits<double>::max();
    for (std::size_t i = 0; i < loads.size(); ++i)
      if (graph.links[i].kind == kind && loads[i] > 0)
        weight = std::min(weight, graph.links[i].capacity / target / loads[i]);
    return std::max(1.0, weight == std::numeric_limits<double>::max() ? 1.0 : weight);
  }

  void set(LinkKind kind, double weight) {
    for (std::size_t i = 0; i < loads.size(); ++i)
      if (graph.links[i].kind == kind) graph.peer_weight[i] = weight;
    raise(kind, weight);
  }
};

/// Sets peer weights (and raises capacities where what was measured exceeds them), so that a ring through all GPUs of
/// an idle machine reaches `target` over PCIe; `alone`: what two GPUs by themselves reach, 0: as the ring.
void calibrate_machine(Topology& topology, TopologyGraph& graph, BytesPerSec target, BytesPerSec alone) {
  if (topology.gpus_per_node() <= 1 || target.value <= 0) return;
  const std::vector<double> loads = ring_loads(topology);
  Calibration calibration{graph, loads, target};
  double pcie = calibration.fitting_weight(LinkKind::Pcie);
  if (alone > target) pcie = std::max(1.0, pcie * (target / alone));
  calibration.set(LinkKind::Pcie, pcie);
  calibration.set(LinkKind::Memory, graph.machine.is_staged ? calibration.fitting_weight(LinkKind::Memory) : 1);
  calibration.set(LinkKind::SharedMemory, calibration.fitting_weight(LinkKind::SharedMemory));
  calibration.raise(LinkKind::Socket, 1);
}

/// Adapters carry in proportion to what they reach when all of them are in use: NCCL looks for as many rings of one
/// speed as the links allow, and takes what a ring uses from each of them (ncclTopoFollowPath of src/graph/search.cc).
void share_relays(TopologyGraph& g, const MachineRates& rates) {
  MachineShape& m = g.machine;
  std::vector<Route> ways(m.relay_of.size());
  std::vector<double> loads(g.links.size());
  for (std::size_t nic = 0; nic < ways.size(); ++nic) {
    GPUPLAN_CHECK(g.append_way(ways[nic], m.relay_of[nic], m.nics[nic], 1, true), "a GPU reaches its adapter");
    for (const LinkUse& use : ways[nic]) loads[use.link] += use.weight;
  }
  double all = 0;
  for (std::size_t nic = 0; nic < ways.size(); ++nic) {
    double rate = rates.nics[nic].value;
    for (const LinkUse& use : ways[nic]) rate = std::min(rate, g.links[use.link].capacity.value / loads[use.link]);
    m.relayed_share.push_back(rate);
    all += rate;
  }
  for (double& share : m.relayed_share) share /= all;
}

/// Joins the adapters of all kept machines. A leaf's links to the spine carry what its machines send, less the
/// oversubscription.
void add_network(Topology& topology, TopologyGraph& g, const NodeLayout& layout, const MachineRates& rates,
                 const std::vector<std::int64_t>& kept) {
  NetworkShape& network = g.network;
  network.leaf_nodes = layout.leaf_nodes > 0 ? layout.leaf_nodes : kUsualLeafNodes;
  const Seconds latency = std::max(Seconds{}, rates.inter_latency) / 2;
  std::vector<std::int64_t> leaves;
  std::vector<double> leaf_rate;
  std::vector<std::uint32_t> leaf_vertices;
  for (std::size_t machine = 0; machine < kept.size(); ++machine) {
    const std::int64_t leaf = kept[machine] / network.leaf_nodes;
    if (leaves.empty() || leaves.back() != leaf) {
      leaves.push_back(leaf);
      leaf_rate.push_back(0);
      leaf_vertices.push_back(topology.add_vertex({VertexKind::Leaf, 0, leaf, fmt::format("leaf {}", leaf)}));
    }
    network.leaf_of.push_back(narrow<std::uint32_t>(leaves.size() - 1));
    for (std::size_t nic = 0; nic < g.machine.nics.size(); ++nic) {
      const std::uint32_t vertex = narrow<std::uint32_t>(machine) * g.machine.num_vertices + g.machine.nics[nic];
      const BytesPerSec rate = rates.nics[nic];
      network.nic_up.push_back(
          topology.add_link(vertex, leaf_vertices.back(), {LinkKind::Network, rate, latency, rates.nic_source}));
      network.nic_down.push_back(
          topology.add_link(leaf_vertices.back(), vertex, {LinkKind::Network, rate, latency, rates.nic_source}));
      leaf_rate.back() += rate.value;
    }
  }
  if (topology.num_nodes <= network.leaf_nodes) return;
  const std::uint32_t spine = topology.add_vertex({VertexKind::Spine, 0, 0, "spine"});
  const std::string source = layout.oversubscription > 1
                                 ? fmt::format("adapters of the leaf / {:g}", layout.oversubscription)
                                 : "non-blocking: all adapters of the leaf";
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    const TopologyLink up{LinkKind::Network, BytesPerSec{leaf_rate[leaf] / layout.oversubscription}, {}, source};
    network.leaf_up.push_back(topology.add_link(leaf_vertices[leaf], spine, up));
    network.leaf_down.push_back(topology.add_link(spine, leaf_vertices[leaf], up));
  }
}

/// Gives what every GPU of machine 0 loads when it sends to its adapters and receives from them.
struct AdapterWays {
  std::vector<Route> of_gpu;
  std::vector<double> loads;  // by link; all GPUs at once
};

AdapterWays adapter_ways(const TopologyGraph& g) {
  const MachineShape& m = g.machine;
  AdapterWays out{std::vector<Route>(m.gpus.size()), std::vector<double>(g.links.size())};
  for (std::size_t gpu = 0; gpu < m.gpus.size(); ++gpu) {
    Route& way = out.of_gpu[gpu];
    for (const std::uint32_t nic : m.adapters_of[gpu]) {
      const double part = 1.0 / double(m.adapters_of[gpu].size());
      GPUPLAN_CHECK(g.append_way(way, m.gpus[gpu], nic, part, true) && g.append_way(way, nic, m.gpus[gpu], part, true),
                    "a GPU reaches its adapters");
      const auto place = std::size_t(std::find(m.nics.begin(), m.nics.end(), nic) - m.nics.begin());
      if (g.network.nic_up.empty()) continue;
      way.push_back({g.network.nic_up[place], part});
      way.push_back({g.network.nic_down[place], part});
    }
    for (const LinkUse& use : way) out.loads[use.link] += use.weight;
  }
  return out;
}

/// Every GPU of a machine reaches the others alike, and sends to other machines over links of the same rates that it
/// shares with as many others.
bool is_symmetric(const ClusterSpec& cluster, const TopologyGraph& g) {
  if (cluster.is_mixed() || cluster.num_gpus() % cluster.gpus_per_node != 0) return false;
  if (cluster.gpus_per_node == 1) return true;
  if (cluster.fabric != FabricKind::NvSwitch || !g.machine.relay_of.empty()) return false;
  const AdapterWays ways = adapter_ways(g);
  const auto signature = [&](const Route& way) {
    std::vector<std::array<double, 3>> out;
    for (const LinkUse& use : way) out.push_back({g.links[use.link].capacity.value, use.weight, ways.loads[use.link]});
    std::ranges::sort(out);
    return out;
  };
  const auto first = signature(ways.of_gpu.front());
  return std::all_of(ways.of_gpu.begin(), ways.of_gpu.end(), [&](const Route& way) { return signature(way) == first; });
}

/// A link that one kept GPU loads carries what all GPUs of its machine send over it.
void count_left_out_gpus(TopologyGraph& g) {
  g.sent_by_all.assign(g.links.size(), 1);
  const AdapterWays ways = adapter_ways(g);
  std::vector<double> own(g.links.size());
  for (const LinkUse& use : ways.of_gpu.front()) own[use.link] += use.weight;
  const auto factor = [&](std::uint32_t link) { return own[link] > 0 ? ways.loads[link] / own[link] : 1.0; };
  const MachineShape& m = g.machine;
  for (std::uint32_t machine = 0; machine < g.network.leaf_of.size(); ++machine) {
    for (std::uint32_t l = 0; l < m.num_links; ++l) g.sent_by_all[machine * m.num_links + l] = factor(l);
    for (std::size_t nic = 0; nic < m.nics.size(); ++nic) {
      const std::size_t place = machine * m.nics.size() + nic;
      g.sent_by_all[g.network.nic_up[place]] = factor(g.network.nic_up[nic]);
      g.sent_by_all[g.network.nic_down[place]] = factor(g.network.nic_down[nic]);
    }
  }
  for (std::size_t leaf = 0; leaf < g.network.leaf_up.size(); ++leaf)
    g.sent_by_all[g.network.leaf_up[leaf]] = g.sent_by_all[g.network.leaf_down[leaf]] = double(m.gpus.size());
}

}  // namespace

Topology build_topology(const ClusterSpec& cluster, const Profile& profile, const TopologyFold& fold) {
  GPUPLAN_CHECK(!cluster.gpus.empty(), "a cluster has GPUs");
  Topology topology;
  TopologyGraph& g = *topology.graph_;
  topology.num_nodes = cluster.num_nodes();
  topology.has_peer_to_peer = cluster.fabric != FabricKind::PcieHostStaged;
  topology.title = cluster.name;
  const NodeLayout layout = complete_layout(cluster, topology.assumptions);
  const MachineRates rates = rates_of(cluster, layout, LinkTable::shipped(), profile);
  build_machine(topology, g.machine, cluster, layout, rates);
  topology.set_gpus(g.machine.gpus, cluster.gpus_per_node, {});
  if (!is_board(cluster.fabric) && cluster.num_gpus() >= cluster.gpus_per_node)
    calibrate_machine(topology, g, rates.ring, rates.alone);
  share_relays(g, rates);

  std::vector<std::uint32_t> gpus;
  topology.set_gpus({}, cluster.gpus_per_node, fold);
  const std::vector<std::int64_t> kept = kept_machines(g, topology.num_nodes);
  for (std::size_t machine = 0; machine < kept.size(); ++machine) {
    if (machine > 0) copy_machine(topology, g.machine, std::int64_t(machine));
    const std::uint32_t base = narrow<std::uint32_t>(machine) * g.machine.num_vertices;
    for (std::size_t gpu = 0; gpu < (fold.one_gpu_per_node ? 1 : g.machine.gpus.size()); ++gpu)
      gpus.push_back(base + g.machine.gpus[gpu]);
    for (std::uint32_t v = base; v < base + g.machine.num_vertices; ++v) {
      g.graph[v].node = kept[machine];
      if (machine > 0) g.graph[v].name = fmt::format("node {} {}", kept[machine], g.graph[v - base].name);
    }
  }
  for (std::size_t machine = 1; machine < kept.size(); ++machine)
    for (std::uint32_t l = 0; l < g.machine.num_links; ++l)
      g.peer_weight[machine * g.machine.num_links + l] = g.peer_weight[l];
  topology.set_gpus(std::move(gpus), cluster.gpus_per_node, fold);
  if (topology.num_nodes > 1) add_network(topology, g, layout, rates, kept);
  topology.is_rank_symmetric = is_symmetric(cluster, g);
  topology.are_machines_alike = g.network.leaf_up.empty() || layout.oversubscription <= 1;
  if (fold.one_gpu_per_node && cluster.gpus_per_node > 1) count_left_out_gpus(g);
  return topology;
}

Topology build_topology(const ClusterSpec& cluster, const TopologyFold& fold) {
  GPUPLAN_CHECK(!cluster.gpus.empty(), "a cluster has GPUs");
  return build_topology(cluster, default_profile(cluster.gpus.front()), fold);
}

}  // namespace gpuplan
