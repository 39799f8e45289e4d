#include "cluster/machine_facts.h"

#include <algorithm>

namespace gpuplan {
namespace {

std::int64_t peers_of(const NodeLayout& layout, std::int64_t gpu) {
  return std::count_if(layout.direct_links.begin(), layout.direct_links.end(),
                       [&](const DirectLink& link) { return link.a == gpu || link.b == gpu; });
}

}  // namespace

FabricKind fabric_of(const MachineFacts& facts, std::int64_t num_gpus, bool has_peer_to_peer) {
  if (num_gpus <= 1) return FabricKind::None;
  if (facts.has_nvswitch) return FabricKind::NvSwitch;
  std::int64_t fewest = num_gpus, most = 0;
  for (std::int64_t i = 0; i < num_gpus; ++i)
    fewest = std::min(fewest, peers_of(facts.layout, i)), most = std::max(most, peers_of(facts.layout, i));
  if (fewest >= 2) return FabricKind::NvLinkMesh;
  if (most >= 1) return FabricKind::NvLinkBridge;
  return has_peer_to_peer ? FabricKind::Pcie : FabricKind::PcieHostStaged;
}

void apply(const MachineFacts& facts, Machine& node, BytesPerSec per_link) {
  const GpuSpec& gpu = node.kinds.front().spec;
  const bool has_peer_to_peer = std::all_of(node.kinds.begin(), node.kinds.end(),
                                            [](const GpuFile& kind) { return kind.spec.has_p2p_over_pcie; });
  node.layout = facts.layout;
  node.pcie_generation = facts.pcie_generation;
  node.pcie_lanes = facts.pcie_lanes;
  node.fabric = fabric_of(facts, node.gpus_per_node, has_peer_to_peer);
  if (facts.links_to_switch && per_link.value > 0)
    node.nvlink = std::min(per_link * double(*facts.links_to_switch), gpu.nvlink_per_direction);
}

}  // namespace gpuplan
