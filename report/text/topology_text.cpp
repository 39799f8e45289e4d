#include "report/text/topology_text.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "report/text/amounts.h"
#include "report/text/table.h"
#include "report/text/text.h"

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
    std::ranges::stable_sort(below, [&](std::uint32_t a, std::uint32_t b) {
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

namespace {

constexpr std::size_t kMostInMatrix = 16;

std::string label_of(const Topology& topology, const MachineTree& tree, std::uint32_t vertex, const Screen& screen) {
  const TopologyVertex& v = topology.vertex(vertex);
  std::string text = v.kind == VertexKind::Memory ? fmt::format("socket {}", v.index) : v.name;
  const Ink ink = v.kind == VertexKind::Gpu ? Ink::Strong : v.kind == VertexKind::Nic ? Ink::Accent : Ink::Plain;
  text = paint(text, ink, screen);
  if (v.kind == VertexKind::Memory && !tree.children[vertex].empty()) {
    if (const TopologyLink* memory = link_between(topology, vertex, tree.children[vertex].front()))
      text += fmt::format("  memory {}", format_rate(memory->capacity));
    return text;
  }
  if (const TopologyLink* up = link_between(topology, vertex, tree.parent[vertex]);
      up && v.kind != VertexKind::HostBridge)
    text += fmt::format("  {} {}", to_string(up->kind), format_rate(up->capacity));
  const bool is_device = v.kind == VertexKind::Gpu || v.kind == VertexKind::Nic;
  for (std::uint32_t link = 0; link < topology.num_links() && is_device; ++link) {
    if (topology.source(link) != vertex) continue;
    const TopologyLink& out = topology.link(link);
    const TopologyVertex& to = topology.vertex(topology.target(link));
    if (out.kind == LinkKind::Network && v.kind == VertexKind::Nic)
      text += fmt::format(", network {}", format_rate(out.capacity));
    if (to.kind == VertexKind::NvSwitch) text += fmt::format(", NVSwitch {}", format_rate(out.capacity));
    if (to.kind == VertexKind::Gpu)
      text += fmt::format(", {} to {} {}", to_string(out.kind), to.name, format_rate(out.capacity));
  }
  return text;
}

void add_branch(std::string& out, const Topology& topology, const MachineTree& tree, std::uint32_t vertex,
                const std::string& indent, bool is_last, const Screen& screen) {
  out += indent + (is_last ? "└─ " : "├─ ") + label_of(topology, tree, vertex, screen) + "\n";
  const auto& below = tree.children[vertex];
  for (std::size_t i = 0; i < below.size(); ++i)
    add_branch(out, topology, tree, below[i], indent + (is_last ? "   " : "│  "), i + 1 == below.size(), screen);
}

std::string tree_text(const Topology& topology, const MachineTree& tree, const Screen& screen) {
  std::string out;
  for (std::size_t i = 0; i < tree.sockets.size(); ++i)
    add_branch(out, topology, tree, tree.sockets[i], "  ", i + 1 == tree.sockets.size(), screen);
  for (std::uint32_t link = 0; link < topology.num_links(); ++link)
    if (topology.link(link).kind == LinkKind::Socket) {
      out += fmt::format("  between sockets {} in each direction\n", format_rate(topology.link(link).capacity));
      break;
    }
  return out;
}

std::string matrix_text(const Topology& topology, const MachineTree& tree, std::int64_t num_gpus,
                        const Screen& screen) {
  Table table{.columns = {{""}}, .rows = {}};
  for (std::int64_t b = 0; b < num_gpus; ++b) table.columns.push_back({fmt::format("GPU {}", b), Align::Right});
  for (std::int64_t a = 0; a < num_gpus; ++a) {
    std::vector<Cell> row{{fmt::format("GPU {}", a), Ink::Strong}};
    for (std::int64_t b = 0; b < num_gpus; ++b) {
      if (a == b) {
        row.push_back({"X", Ink::Faint});
        continue;
      }
      const double rate = rate_of(topology, topology.route(a, b)).rate.value / 1e9;
      row.push_back({fmt::format("{} {:.{}f}", path_class(topology, tree, topology.gpu(a), topology.gpu(b)), rate,
                                 rate < 100 ? 1 : 0)});
    }
    table.add(std::move(row));
  }
  return heading("Between pairs that nobody else disturbs, GB/s in one direction", screen) + render(table, screen);
}

std::string rings_text(const ClusterSpec& cluster, const Topology& topology, const Screen& screen) {
  std::vector<Fact> facts;
  const auto ring = [&](std::int64_t count, std::int64_t per_node, const std::string& label) {
    std::vector<std::int64_t> ranks;
    for (std::int64_t i = 0; i < count; ++i) ranks.push_back(i);
    const auto order = topology.ring_order(ranks);
    std::string text;
    for (std::size_t i = 0; i < order.size() && i < kMostInMatrix; ++i)
      text += fmt::format("{}{}", i > 0 ? " → " : "", order[i]);
    facts.push_back(
        {label, fmt::format("{}{}: {} leave every GPU", text, order.size() > kMostInMatrix ? " → …" : " → 0",
                            format_rate(ring_rate(topology, order, per_node)))});
  };
  const std::int64_t per_node = cluster.ranks_per_node(cluster.num_gpus());
  if (per_node > 1) ring(per_node, per_node, "in a machine");
  if (cluster.num_nodes() > 1 && cluster.num_gpus() % cluster.gpus_per_node == 0)
    ring(cluster.num_gpus(), per_node, fmt::format("{} machines", cluster.num_nodes()));
  return facts.empty()
             ? ""
             : heading("Rings of all-gather and reduce-scatter while a step trains", screen) + render(facts, 2, screen);
}

std::string pair_text(const Topology& topology, std::int64_t from, std::int64_t to, const Screen& screen) {
  const Route route = topology.route(from, to);
  const RouteRate rate = rate_of(topology, route);
  Table table{
      .columns =
          {{"from"}, {"to"}, {"link"}, {"GB/s", Align::Right}, {"load", Align::Right}, {"reaches", Align::Right}},
      .rows = {}};
  for (const LinkUse& use : route) {
    const TopologyLink& link = topology.link(use.link);
    const double capacity = link.capacity.value / 1e9;
    table.add({{topology.vertex(topology.source(use.link)).name},
               {topology.vertex(topology.target(use.link)).name},
               {std::string(to_string(link.kind))},
               {fmt::format("{:.1f}", capacity)},
               {fmt::format("× {:.2f}", use.weight)},
               {fmt::format("{:.1f}", capacity / use.weight), use.link == rate.bottleneck ? Ink::Bad : Ink::Plain}});
  }
  return heading(fmt::format("From GPU {} to GPU {}: {}", from, to, format_rate(rate.rate)), screen) +
         render(table, screen) +
         wrap(
             fmt::format("Bottleneck: {} from {} to {} ({})", to_string(topology.link(rate.bottleneck).kind),
                         topology.vertex(topology.source(rate.bottleneck)).name,
                         topology.vertex(topology.target(rate.bottleneck)).name, topology.link(rate.bottleneck).source),
             prose_width(screen), "", "  ");
}

}  // namespace

std::string topology_text(const TopologyAnswer& answer, const Screen& screen) {
  const ClusterSpec& cluster = answer.cluster;
  const MachineTree tree = first_machine(answer.topology);
  const std::string name = paint(cluster.name, Ink::Strong, screen);
  const std::string what =
      wrap(fmt::format("{} × {}, {}", cluster.num_gpus(), cluster.gpus.front().name, cluster.fabric_text),
           prose_width(screen), cluster.name + ": ", "  ");
  std::string out = name + what.substr(cluster.name.size());
  out += heading(cluster.num_nodes() > 1 ? fmt::format("One of {} machines", cluster.num_nodes()) : "Machine", screen);
  out += tree_text(answer.topology, tree, screen);
  const std::int64_t shown = cluster.ranks_per_node(cluster.num_gpus());
  if (shown > 1 && std::size_t(shown) <= kMostInMatrix) out += matrix_text(answer.topology, tree, shown, screen);
  if (shown > std::int64_t(kMostInMatrix))
    out += fmt::format("\nMore than {} GPUs: --from A --to B shows a pair.\n", kMostInMatrix);
  out += rings_text(cluster, answer.topology, screen);
  if (answer.pair) out += pair_text(answer.topology, answer.pair->first, answer.pair->second, screen);
  std::vector<std::string> assumptions = cluster.assumptions;
  for (const std::string& text : answer.topology.assumptions) assumptions.push_back(text);
  if (!assumptions.empty()) out += heading("Assumed", screen) + points(assumptions, screen);
  return out;
}

}  // namespace gpuplan
