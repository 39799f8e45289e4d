// Internal to the topology: the graph itself and what build_topology knows about a machine. All machines of a cluster
// are alike, so that vertices and links of machine m are those of machine 0 shifted by m times their number, and ways
// through a machine are searched once.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <boost/graph/adjacency_list.hpp>

#include "cluster/topology_parts.h"

namespace gpuplan {

/// The edge property is the link's id.
using LinkGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, TopologyVertex,
                                        boost::property<boost::edge_index_t, std::uint32_t>>;

constexpr std::uint32_t kNone = 0xffffffff;

/// Ways from one vertex: the link by which each vertex is reached, kNone for those that are not.
struct WayTree {
  std::vector<std::uint32_t> last_link;
};

/// Vertices that stand at the same place in every machine, by those of machine 0.
struct MachineShape {
  std::uint32_t num_vertices = 0, num_links = 0;        // 0: the graph was not made by build_topology
  std::vector<std::uint32_t> gpus, memory_of;           // per local GPU: its vertex, its socket's memory
  std::vector<std::uint32_t> nvme_of;                   // per local GPU; empty: the machine has none
  std::vector<std::vector<std::uint32_t>> adapters_of;  // per local GPU
  std::vector<std::uint32_t> nics;
  /// Per adapter the GPU beside it, where rings and messages to other machines leave by it and not by each GPU itself;
  /// empty: every GPU takes its own adapters.
  std::vector<std::uint32_t> relay_of;
  std::vector<double> relayed_share;      // per adapter, of what leaves the machine
  std::vector<std::uint32_t> folded_way;  // of GPU 0 to the NVSwitch and back
  bool has_like_neighbours = false;       // every pair of GPUs is linked alike
  bool is_staged = false;                 // GPUs reach each other and the adapters through host memory
  bool has_ring_per_adapter = false;      // rings through several machines leave each at every GPU in turn
  bool has_striped_rings = false;         // rings use every direct link of a GPU alike
};

struct NetworkShape {
  std::vector<std::uint32_t> nic_up, nic_down;    // link of every adapter, machine by machine, to and from its leaf
  std::vector<std::uint32_t> leaf_up, leaf_down;  // per leaf; empty: one leaf
  std::vector<std::uint32_t> leaf_of;             // per kept machine
  std::int64_t leaf_nodes = 1;                    // real machines on one leaf
};

struct TopologyGraph {
  LinkGraph graph;
  std::vector<TopologyLink> links;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ends;
  std::vector<double> peer_weight;  // load of a link per byte between GPUs
  /// Says how many times as much as its one kept GPU the GPUs of a machine send over a link; empty: all are kept.
  std::vector<double> sent_by_all;
  std::vector<std::uint32_t> gpus;
  std::int64_t gpus_per_node = 1;
  TopologyFold fold;
  std::vector<std::int64_t> kept_of;  // per real machine: position among the kept ones; empty: all are kept
  MachineShape machine;
  NetworkShape network;
  mutable std::vector<std::optional<WayTree>> trees;  // by source, filled on demand

  std::int64_t kept_machine(std::int64_t node) const { return kept_of.empty() ? node : kept_of.at(std::size_t(node)); }
  std::int64_t node_of(std::int64_t rank) const { return rank / gpus_per_node; }
  /// Position of the rank among the GPUs kept of its machine.
  std::int64_t local_of(std::int64_t rank) const { return fold.one_gpu_per_node ? 0 : rank % gpus_per_node; }

  /// Ways from `source`, inside its machine where machines are known.
  const WayTree& tree(std::uint32_t source) const;
  /// Appends the way from one vertex to another of the same machine, in the order of travel; false when there is none.
  bool append_way(Route& route, std::uint32_t from, std::uint32_t to, double weight, bool is_peer) const;
};

/// Widest, then shortest ways from `source`. Ways over NVLink or Infinity Fabric alone come before all others; GPUs,
/// adapters and memory are not passed through.
WayTree find_ways(const TopologyGraph& topology, std::uint32_t source, std::uint32_t first, std::uint32_t last);

}  // namespace gpuplan
