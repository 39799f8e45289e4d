// The links of a machine or cluster as a directed graph: GPUs, PCIe switches, host bridges, memory, NVSwitches, network
// adapters, leaf and spine switches. Capacities are the rates that transfers reach (efficiency included), so that a
// ring in an idle machine takes what ClusterSpec's LinkCost says; the graph adds who shares what.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cluster/topology_parts.h"

namespace gpuplan {

struct ClusterSpec;
struct Profile;
struct TopologyGraph;  // a Boost.Graph adjacency list

class Topology {
 public:
  Topology();
  Topology(const Topology&);
  Topology(Topology&&) noexcept;
  Topology& operator=(Topology) noexcept;
  ~Topology();

  std::uint32_t add_vertex(TopologyVertex vertex);
  /// One direction; returns the link's id. Ids count from 0 in the order of calls.
  std::uint32_t add_link(std::uint32_t from, std::uint32_t to, TopologyLink link);
  /// Both directions alike.
  void connect(std::uint32_t a, std::uint32_t b, TopologyLink link);
  /// Vertices of the kept GPUs, machine by machine; `gpus_per_node` is that of the real cluster.
  void set_gpus(std::vector<std::uint32_t> vertices, std::int64_t gpus_per_node, TopologyFold fold);

  std::size_t num_vertices() const;
  std::size_t num_links() const;
  const TopologyVertex& vertex(std::uint32_t id) const;
  const TopologyLink& link(std::uint32_t id) const;
  std::uint32_t source(std::uint32_t link) const;
  std::uint32_t target(std::uint32_t link) const;

  /// The vertex of a rank of the real cluster (of the one that stands for it).
  std::uint32_t gpu(std::int64_t rank) const;
  std::int64_t gpus_per_node() const;

  /// The way from one GPU to another: widest, then shortest; through host memory where peers cannot reach each other.
  /// Between machines each takes its nearest adapter.
  Route route(std::int64_t from_rank, std::int64_t to_rank) const;
  /// Between the memory of the rank's host and its GPU.
  Route host_route(std::int64_t rank, bool to_device) const;
  Route nvme_route(std::int64_t rank, bool to_nvme) const;  // between NVMe and host memory

  /// The order in which rings visit `ranks` (all of one group): neighbours by the widest links, machine by machine.
  std::vector<std::int64_t> ring_order(std::span<const std::int64_t> ranks) const;
  /// Links that one message of a ring step loads when `from` sends to `to`, next in a group of `group_size` ranks with
  /// `ranks_per_node` of them in each machine. A ring through several machines runs once per adapter, so that every
  /// member's message goes over NVLink and adapters in the shares of those rings (weights below 1).
  /// `members` matters to a group of a part of a machine whose GPUs are linked directly (a mesh): its rings use the
  /// links among them alike.
  Route ring_route(std::int64_t from, std::int64_t to, std::int64_t ranks_per_node, std::int64_t group_size,
                   std::span<const std::int64_t> members = {}) const;
  /// The rate that leaves every GPU of a machine when all groups of `ways` GPUs, `stride` apart, run rings in it at
  /// once.
  BytesPerSec rate_of_groups(std::int64_t stride, std::int64_t ways) const;

  // Filled by build_topology (cluster/topology_builder.h).
  std::int64_t num_nodes = 1;
  bool is_rank_symmetric = false;  // every GPU of a machine sees the same: ranks may be folded to one per machine
  bool are_machines_alike = true;  // no leaf's links to the spine bind: ranks may be folded to those of one machine
  bool has_peer_to_peer = true;    // over PCIe; false: staged through host memory
  std::string title;
  std::vector<std::string> assumptions;

 private:
  friend Topology build_topology(const ClusterSpec&, const Profile&, const TopologyFold&);
  std::unique_ptr<TopologyGraph> graph_;
};

}  // namespace gpuplan
