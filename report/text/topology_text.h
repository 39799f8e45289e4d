// A topology as text: the tree of a machine, what every pair of GPUs reaches, the rings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/topology.h"
#include "report/text/screen.h"

namespace gpuplan {

constexpr std::uint32_t kNoVertex = 0xffffffff;

struct MachineTree {
  std::vector<std::uint32_t> sockets;                // memories
  std::vector<std::vector<std::uint32_t>> children;  // by vertex
  std::vector<std::uint32_t> parent;                 // by vertex; kNoVertex: a socket, or not in the machine
  std::vector<std::uint32_t> gpus, nics;
  std::uint32_t nvswitch = kNoVertex;
};

MachineTree first_machine(const Topology& topology);

/// The link from one vertex to another; nullptr when there is none.
const TopologyLink* link_between(const Topology& topology, std::uint32_t from, std::uint32_t to);

/// Says it as nvidia-smi topo -m does: NV, PIX, PXB, PHB, NODE, SYS.
std::string path_class(const Topology& topology, const MachineTree& tree, std::uint32_t a, std::uint32_t b);

/// Holds what a transfer alone reaches over a route, and the link that limits it.
struct RouteRate {
  BytesPerSec rate;
  std::uint32_t bottleneck{};
};
RouteRate rate_of(const Topology& topology, const Route& route);

/// Bytes per second that leave every rank of a ring over `ranks` when all messages are under way.
BytesPerSec ring_rate(const Topology& topology, const std::vector<std::int64_t>& order, std::int64_t ranks_per_node);

struct TopologyAnswer {
  const ClusterSpec& cluster;
  const Topology& topology;
  std::optional<std::pair<std::int64_t, std::int64_t>> pair;  // --from, --to
};

std::string topology_text(const TopologyAnswer& answer, const Screen& screen);

}  // namespace gpuplan
