#include "cluster/topology.h"

#include <algorithm>

#include "base/error.h"
#include "base/narrow.h"
#include "cluster/topology_graph.h"

namespace gpuplan {

Topology::Topology() : graph_(std::make_unique<TopologyGraph>()) {}
Topology::Topology(const Topology& other)
    : num_nodes(other.num_nodes),
      is_rank_symmetric(other.is_rank_symmetric),
      are_machines_alike(other.are_machines_alike),
      has_peer_to_peer(other.has_peer_to_peer),
      title(other.title),
      assumptions(other.assumptions),
      graph_(std::make_unique<TopologyGraph>(*other.graph_)) {}
Topology::Topology(Topology&&) noexcept = default;
Topology& Topology::operator=(Topology other) noexcept {
  std::swap(graph_, other.graph_);
  num_nodes = other.num_nodes;
  is_rank_symmetric = other.is_rank_symmetric;
  are_machines_alike = other.are_machines_alike;
  has_peer_to_peer = other.has_peer_to_peer;
  title = std::move(other.title);
  assumptions = std::move(other.assumptions);
  return *this;
}
Topology::~Topology() = default;

std::uint32_t Topology::add_vertex(TopologyVertex vertex) {
  const auto id = boost::add_vertex(graph_->graph);  // without its property: GCC warns of boost's own code there
  graph_->graph[id] = std::move(vertex);
  return narrow<std::uint32_t>(id);
}

std::uint32_t Topology::add_link(std::uint32_t from, std::uint32_t to, TopologyLink link) {
  GPUPLAN_CHECK(from < num_vertices() && to < num_vertices() && from != to, "a link joins two vertices");
  GPUPLAN_CHECK(link.capacity.value > 0, "a link carries something");
  const auto id = narrow<std::uint32_t>(graph_->links.size());
  boost::add_edge(from, to, id, graph_->graph);
  graph_->links.push_back(std::move(link));
  graph_->ends.emplace_back(from, to);
  graph_->peer_weight.push_back(1);
  graph_->trees.clear();
  return id;
}

void Topology::connect(std::uint32_t a, std::uint32_t b, TopologyLink link) {
  add_link(a, b, link);
  add_link(b, a, std::move(link));
}

void Topology::set_gpus(std::vector<std::uint32_t> vertices, std::int64_t gpus_per_node, TopologyFold fold) {
  GPUPLAN_CHECK(gpus_per_node > 0, "a machine has GPUs");
  std::vector<std::int32_t> kept = fold.node_stands_for;
  std::ranges::sort(kept);
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  graph_->kept_of.clear();
  for (const std::int32_t node : fold.node_stands_for)
    graph_->kept_of.push_back(std::lower_bound(kept.begin(), kept.end(), node) - kept.begin());
  graph_->gpus = std::move(vertices);
  graph_->gpus_per_node = gpus_per_node;
  graph_->fold = std::move(fold);
}

std::size_t Topology::num_vertices() const { return boost::num_vertices(graph_->graph); }
std::size_t Topology::num_links() const { return graph_->links.size(); }
const TopologyVertex& Topology::vertex(std::uint32_t id) const { return graph_->graph[id]; }
const TopologyLink& Topology::link(std::uint32_t id) const { return graph_->links.at(id); }
std::uint32_t Topology::source(std::uint32_t link) const { return graph_->ends.at(link).first; }
std::uint32_t Topology::target(std::uint32_t link) const { return graph_->ends.at(link).second; }
std::int64_t Topology::gpus_per_node() const { return graph_->gpus_per_node; }

std::uint32_t Topology::gpu(std::int64_t rank) const {
  GPUPLAN_CHECK(rank >= 0, "ranks count from 0");
  const TopologyGraph& g = *graph_;
  const std::int64_t per_node = g.fold.one_gpu_per_node ? 1 : g.gpus_per_node;
  const auto index = std::size_t(g.kept_machine(g.node_of(rank)) * per_node + g.local_of(rank));
  GPUPLAN_CHECK(index < g.gpus.size(), "the rank is in the cluster");
  return g.gpus[index];
}

}  // namespace gpuplan
