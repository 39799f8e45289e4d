#include "cluster/topology_graph.h"

#include <algorithm>
#include <limits>

#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/filtered_graph.hpp>
#include <boost/property_map/function_property_map.hpp>

#include "base/error.h"
#include "base/narrow.h"

namespace gpuplan {
namespace {

bool is_direct(LinkKind kind) { return kind == LinkKind::NvLink || kind == LinkKind::InfinityFabric; }

bool is_passed_through(VertexKind kind) {
  return kind == VertexKind::PcieSwitch || kind == VertexKind::HostBridge || kind == VertexKind::NvSwitch ||
         kind == VertexKind::Leaf || kind == VertexKind::Spine;
}

/// Cost of a way; the least is the best.
struct WayCost {
  bool leaves_direct_links = false;
  double negative_width = -std::numeric_limits<double>::infinity();
  int num_hops = 0;
  auto operator<=>(const WayCost&) const = default;
};

constexpr WayCost kNoWay{true, std::numeric_limits<double>::infinity(), std::numeric_limits<int>::max()};

/// Edges that leave `source` or something that passes data on, inside the machine.
struct Passable {
  const LinkGraph* graph = nullptr;
  std::uint32_t source = 0, first = 0, last = 0;
  template <class Edge>
  bool operator()(const Edge& edge) const {
    const auto from = boost::source(edge, *graph), to = boost::target(edge, *graph);
    return to >= first && to < last && (from == source || is_passed_through((*graph)[from].kind));
  }
};

/// Notes by which link a vertex is reached best.
struct LastLink : boost::dijkstra_visitor<> {
  WayTree* tree;
  std::uint32_t first;
  LastLink(WayTree& t, std::uint32_t f) : tree(&t), first(f) {}
  template <class Edge, class Graph>
  void edge_relaxed(Edge edge, const Graph& graph) const {
    tree->last_link[boost::target(edge, graph) - first] = get(boost::edge_index, graph, edge);
  }
};

}  // namespace

WayTree find_ways(const TopologyGraph& topology, std::uint32_t source, std::uint32_t first, std::uint32_t last) {
  const LinkGraph& graph = topology.graph;
  WayTree tree{std::vector<std::uint32_t>(last - first, kNone)};
  const boost::filtered_graph<LinkGraph, Passable> passable(graph, Passable{&graph, source, first, last});
  std::vector<WayCost> costs(boost::num_vertices(graph), kNoWay);
  const auto length = boost::make_function_property_map<LinkGraph::edge_descriptor>([&](const auto& edge) {
    const TopologyLink& link = topology.links[get(boost::edge_index, graph, edge)];
    return WayCost{!is_direct(link.kind), -link.capacity.value, 1};
  });
  const auto extend = [](const WayCost& way, const WayCost& link) {
    if (way == kNoWay || link == kNoWay) return kNoWay;
    return WayCost{way.leaves_direct_links || link.leaves_direct_links,
                   std::max(way.negative_width, link.negative_width), way.num_hops + link.num_hops};
  };
  boost::dijkstra_shortest_paths(
      passable, source,
      boost::weight_map(length)
          .distance_map(boost::make_iterator_property_map(costs.begin(), get(boost::vertex_index, graph)))
          .distance_compare(std::less<WayCost>())
          .distance_combine(extend)
          .distance_inf(kNoWay)
          .distance_zero(WayCost{})
          .visitor(LastLink(tree, first)));
  return tree;
}

const WayTree& TopologyGraph::tree(std::uint32_t source) const {
  const std::uint32_t per_machine = machine.num_vertices;
  const std::uint32_t local = per_machine > 0 ? source % per_machine : source;
  if (trees.size() <= local) trees.resize(per_machine > 0 ? per_machine : boost::num_vertices(graph));
  if (!trees[local])
    trees[local] =
        find_ways(*this, local, 0, per_machine > 0 ? per_machine : narrow<std::uint32_t>(boost::num_vertices(graph)));
  return *trees[local];
}

bool TopologyGraph::append_way(Route& route, std::uint32_t from, std::uint32_t to, double weight, bool is_peer) const {
  if (from == to) return true;
  const std::uint32_t per_machine = machine.num_vertices;
  const std::uint32_t node = per_machine > 0 ? from / per_machine : 0;
  const WayTree& ways = tree(from);
  const std::size_t begin = route.size();
  for (std::uint32_t at = to - node * per_machine; at != from - node * per_machine;) {
    const std::uint32_t link = ways.last_link[at];
    if (link == kNone) return route.resize(begin), false;
    route.push_back({link + node * machine.num_links, weight * (is_peer ? peer_weight[link] : 1.0)});
    at = ends[link].first;
  }
  std::reverse(route.begin() + std::ptrdiff_t(begin), route.end());
  return true;
}

}  // namespace gpuplan
