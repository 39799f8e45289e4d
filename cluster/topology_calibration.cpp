// Peer weights. A PCIe link carries less between GPUs than in copies to the host: chunks wait for each other, both
// directions meet in the root complex. Rather than two capacities for one link, a byte between GPUs loads it `weight` >
// 1 times, so that copies and collectives share the link as they do in truth:
//   weight = min over links of (capacity / messages of the ring that cross it) / rate of the ring.
// The same for the memory of a socket, where a staged byte is written and read.
#include <algorithm>
#include <limits>

#include "cluster/topology_graph.h"

namespace gpuplan {
namespace {

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

}  // namespace

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

}  // namespace gpuplan
