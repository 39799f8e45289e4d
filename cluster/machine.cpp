#include "cluster/machine.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "cluster/fabric.h"
#include "cluster/links.h"
#include "cluster/usual_layout.h"

namespace gpuplan {
namespace {

PcieSlot slot_of(const Machine& machine, const GpuSpec& gpu) {
  return {std::min(gpu.pcie_generation, machine.pcie_generation.value_or(gpu.pcie_generation)),
          std::min(gpu.pcie_lanes, machine.pcie_lanes.value_or(gpu.pcie_lanes))};
}

/// What a ring through every GPU of a node runs over.
FabricKind ring_fabric(const Machine& machine) {
  if (machine.gpus_per_node <= 1) return FabricKind::None;
  if (machine.fabric != FabricKind::NvLinkBridge || machine.gpus_per_node == 2) return machine.fabric;
  const bool has_p2p = std::all_of(machine.kinds.begin(), machine.kinds.end(),
                                   [](const GpuFile& gpu) { return gpu.spec.has_p2p_over_pcie; });
  return has_p2p ? FabricKind::Pcie : FabricKind::PcieHostStaged;
}

LinkCost stated_or(const StatedLink& stated, LinkCost link) {
  if (stated.bus || stated.all_reduce_bus || stated.latency) link.source = stated.source;
  if (stated.bus) link.bandwidth = link.all_reduce_bandwidth = *stated.bus;
  if (stated.all_reduce_bus) link.all_reduce_bandwidth = *stated.all_reduce_bus;
  if (stated.latency) link.latency = *stated.latency;
  return link;
}

std::string fabric_text(const Machine& machine, FabricKind fabric) {
  if (!machine.fabric_text.empty()) return machine.fabric_text;
  GpuSpec gpu = machine.kinds.front().spec;
  const PcieSlot slot = slot_of(machine, gpu);
  gpu.pcie_generation = slot.generation;
  gpu.pcie_lanes = slot.lanes;
  std::string text = describe_fabric(fabric, gpu);
  if (fabric != machine.fabric && fabric != FabricKind::None) text += "; NVLink bridges join pairs only";
  if (!machine.fabric_note.empty() && fabric != FabricKind::None) text += "; " + machine.fabric_note;
  return text;
}

/// NVLinks between single GPUs with what they reach; a file that says "bridges" means neighbours.
void add_bridges(NodeLayout& layout, const Machine& machine, const LinkTable& links, const GpuFile& gpu,
                 const Profile& profile) {
  if (machine.fabric == FabricKind::NvLinkBridge && layout.direct_links.empty() && machine.gpus_per_node > 2)
    for (std::int64_t a = 0; a + 1 < machine.gpus_per_node; a += 2) layout.direct_links.push_back({a, a + 1, 1, {}});
  if (machine.fabric != FabricKind::NvLinkBridge) return;
  const BytesPerSec pair = links.ring(gpu, FabricKind::NvLinkBridge, 2, {}, profile).bandwidth;
  const BytesPerSec per_link = links.nvlink(gpu.spec.compute_capability);
  for (DirectLink& link : layout.direct_links) {
    if (link.rate.value > 0) continue;
    const bool is_counted = link.num_links > 1 && per_link.value > 0 && gpu.spec.nvlink_per_direction.value > 0;
    link.rate =
        pair * (is_counted ? std::min(1.0, per_link * double(link.num_links) / gpu.spec.nvlink_per_direction) : 1.0);
  }
}

/// A stated NVLink rate scales what was measured at the card's own rate.
GpuFile with_nvlink(GpuFile gpu, std::optional<BytesPerSec> rate) {
  if (!rate || gpu.spec.nvlink_per_direction.value <= 0 || *rate == gpu.spec.nvlink_per_direction) return gpu;
  const double factor = *rate / gpu.spec.nvlink_per_direction;
  gpu.spec.nvlink_per_direction = *rate;
  for (RingFigure& ring : gpu.rings) {
    ring.bus = ring.bus * factor;
    ring.all_reduce_bus = ring.all_reduce_bus * factor;
    ring.source += fmt::format(", times {:.3g} for the NVLink rate of this machine", factor);
  }
  return gpu;
}

}  // namespace

ClusterSpec build_cluster(const Machine& machine) {
  GPUPLAN_CHECK(!machine.kinds.empty() && !machine.kind_of_rank.empty(), "a machine has GPUs");
  ClusterSpec cluster;
  cluster.gpus.reserve(machine.kind_of_rank.size());
  for (std::size_t kind : machine.kind_of_rank) cluster.gpus.push_back(machine.kinds[kind].spec);
  cluster.gpus_per_node = machine.gpus_per_node;
  cluster.fabric = ring_fabric(machine);
  cluster.fabric_text = fabric_text(machine, cluster.fabric);
  cluster.host_memory = machine.host_memory;
  cluster.host_cores = machine.host_cores;
  cluster.layout = machine.layout;
  const HostShape host_shape{
      machine.layout.sockets > 0 ? machine.layout.sockets : usual_sockets(cluster.fabric, machine.gpus_per_node),
      machine.layout.memory_bandwidth};

  const LinkTable links = LinkTable::read();
  for (std::size_t i = 0; i < machine.kinds.size(); ++i) {  // the slowest kind decides
    const GpuFile gpu = with_nvlink(machine.kinds[i], machine.nvlink);
    const PcieSlot slot = slot_of(machine, gpu.spec);
    const Profile profile = default_profile(gpu.spec);
    const bool is_first = i == 0;
    const BytesPerSec host = machine.host_link.value_or(links.host_link(slot));
    cluster.host_link = is_first ? host : std::min(cluster.host_link, host);
    if (cluster.fabric != FabricKind::None) {
      const LinkCost ring =
          stated_or(machine.intra, links.ring(gpu, cluster.fabric, machine.gpus_per_node, slot, profile, host_shape));
      cluster.intra = is_first ? ring : slower(cluster.intra, ring);
    }
    if (is_first) add_bridges(cluster.layout, machine, links, gpu, profile);
    if (cluster.num_nodes() > 1) cluster.inter = stated_or(machine.inter, links.network(machine.nic_per_gpu, profile));
  }
  return cluster;
}

void price_from_catalogue(ClusterSpec& cluster, const Machine& machine) {
  double sum = 0;
  std::vector<std::string> sources;
  for (std::size_t i = 0; i < machine.kinds.size(); ++i) {
    const GpuPrice* price = cheapest(machine.kinds[i].prices);
    if (!price) return;
    sum += price->usd_per_gpu_hour * double(std::count(machine.kind_of_rank.begin(), machine.kind_of_rank.end(), i)) /
           double(machine.kinds[i].devices_per_card);
    const std::string prefix = machine.kinds.size() > 1 ? machine.kinds[i].spec.id + ": " : "";
    sources.push_back(prefix + describe_price(*price));
  }
  cluster.price_per_gpu_hour = sum / double(machine.kind_of_rank.size());
  cluster.price_source = fmt::format("{}", fmt::join(sources, "; "));
}

}  // namespace gpuplan
