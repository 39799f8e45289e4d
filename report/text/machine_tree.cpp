#include "report/text/machine_tree.h"

#include <algorithm>
#include <limits>

namespace gpuplan {
namespace {

bool is_device(VertexKind kind) {
  return kind == VertexKind::Gpu || kind == VertexKind::Nic || kind == VertexKind::Nvme;
}

/// Hangs what is linked by PCIe below `vertex`, switches first.
void hang(const Topology& topology, MachineTree& tree, std::uint32_t vertex) {
  for (std::uint32_t link = 0; link < topology.num_links(); ++link) {
    if (topology.source(link) != vertex) continue;
    const LinkKind kind = topology.link(link).kind;
    const std::uint32_t below = topology.target(link);
    const VertexKind what = topology.vertex(below).kind;
    const bool is_bridge = what == VertexKind::HostBridge && topology.vertex(vertex).kind != VertexKind::Memory;
    if (kind == LinkKind::Socket || what == VertexKind::Memory) continue;
    if (kind != LinkKind::Pcie && kind != LinkKind::SharedMemory && kind != LinkKind::Memory) continue;
    if (tree.parent[below] != kNoVertex || below == vertex) continue;
    const std::uint32_t parent = is_bridge ? tree.parent[vertex] : vertex;
    if (parent == kNoVertex) continue;
    tree.parent[below] = parent;
    tree.children[parent].push_back(below);
    if (!is_device(what)) hang(topology, tree, below);
  }
}

std::uint32_t socket_of(const MachineTree& tree, std::uint32_t vertex) {
  while (tree.parent[vertex] != kNoVertex) vertex = tree.parent[vertex];
  return vertex;
}

}  // namespace

MachineTree first_machine(const Topology& topology) {
  MachineTree tree;
  const auto count = topology.num_vertices();
  tree.children.resize(count);
  tree.parent.assign(count, kNoVertex);
  const std::int64_t node = topology.vertex(topology.gpu(0)).node;
  for (std::uint32_t v = 0; v < count; ++v) {
    const TopologyVertex& vertex = topology.vertex(v);
    if (vertex.node != node) continue;
    if (vertex.kind == VertexKind::Memory) tree.sockets.push_back(v);
    if (vertex.kind == VertexKind::Gpu) tree.gpus.push_back(v);
    if (vertex.kind == VertexKind::Nic) tree.nics.push_back(v);
    if (vertex.kind == VertexKind::NvSwitch && tree.nvswitch == kNoVertex) tree.nvswitch = v;
  }
  for (const std::uint32_t socket : tree.sockets)
    for (std::uint32_t link = 0; link < topology.num_links(); ++link) {
      const std::uint32_t bridge = topology.target(link);
      if (topology.source(link) != socket || tree.parent[bridge] != kNoVertex) continue;
      tree.parent[bridge] = socket;
      tree.children[socket].push_back(bridge);
      if (topology.vertex(bridge).kind == VertexKind::HostBridge) hang(topology, tree, bridge);
    }
  for (auto& below : tree.children)
    std::stable_sort(below.begin(), below.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(topology.vertex(a).kind, a) < std::pair(topology.vertex(b).kind, b);
    });
  return tree;
}

const TopologyLink* link_between(const Topology& topology, std::uint32_t from, std::uint32_t to) {
  for (std::uint32_t link = 0; link < topology.num_links(); ++link)
    if (topology.source(link) == from && topology.target(link) == to) return &topology.link(link);
  return nullptr;
}

std::string path_class(const Topology& topology, const MachineTree& tree, std::uint32_t a, std::uint32_t b) {
  if (const TopologyLink* direct = link_between(topology, a, b))
    return direct->kind == LinkKind::InfinityFabric ? "XGMI" : "NV";
  if (tree.nvswitch != kNoVertex) return "NV";
  if (tree.parent[a] == tree.parent[b])
    return topology.vertex(tree.parent[a]).kind == VertexKind::PcieSwitch ? "PIX"
           : topology.vertex(tree.parent[a]).kind == VertexKind::Memory   ? "SHM"
                                                                          : "PHB";
  for (std::uint32_t x = tree.parent[a]; x != kNoVertex; x = tree.parent[x])
    for (std::uint32_t y = tree.parent[b]; y != kNoVertex; y = tree.parent[y])
      if (x == y) {
        const VertexKind kind = topology.vertex(x).kind;
        return kind == VertexKind::PcieSwitch ? "PXB" : kind == VertexKind::HostBridge ? "PHB" : "NODE";
      }
  return socket_of(tree, a) == socket_of(tree, b) ? "NODE" : "SYS";
}

RouteRate rate_of(const Topology& topology, const Route& route) {
  RouteRate out{BytesPerSec{std::numeric_limits<double>::infinity()}};
  for (const LinkUse& use : route)
    if (const BytesPerSec rate = topology.link(use.link).capacity / use.weight; rate < out.rate) out = {rate, use.link};
  return out;
}

BytesPerSec ring_rate(const Topology& topology, const std::vector<std::int64_t>& order, std::int64_t ranks_per_node) {
  Route all;
  std::vector<double> loads(topology.num_links());
  const auto size = std::int64_t(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    for (const LinkUse& use : topology.ring_route(order[i], order[(i + 1) % order.size()], ranks_per_node, size))
      loads[use.link] += use.weight;
  for (std::uint32_t link = 0; link < loads.size(); ++link)
    if (loads[link] > 0) all.push_back({link, loads[link]});
  return rate_of(topology, all).rate;
}

}  // namespace gpuplan
