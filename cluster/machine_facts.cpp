#include "cluster/machine_facts.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

namespace gpuplan {
namespace {

constexpr int kLevels = 4;  // PIX, PXB, PHB, NODE; SYS joins nothing

/// Sets of devices that are at most so far apart.
struct Groups {
  std::vector<std::size_t> root;
  explicit Groups(std::size_t count) : root(count) { std::iota(root.begin(), root.end(), std::size_t{0}); }
  std::size_t find(std::size_t i) const {
    while (root[i] != i) i = root[i];
    return i;
  }
  void join(std::size_t a, std::size_t b) { root[std::max(find(a), find(b))] = std::min(find(a), find(b)); }
  std::size_t size(std::size_t i) const {
    std::size_t count = 0;
    for (std::size_t j = 0; j < root.size(); ++j) count += find(j) == find(i) ? 1 : 0;
    return count;
  }
};

/// Groups by PIX, PXB, PHB, NODE: each level joins what the one before did.
std::vector<Groups> levels_of(const PathMatrix& matrix) {
  std::vector<Groups> levels;
  const PathClass paths[kLevels]{PathClass::Pix, PathClass::Pxb, PathClass::Phb, PathClass::Node};
  for (int level = 0; level < kLevels; ++level) {
    Groups groups = levels.empty() ? Groups(matrix.labels.size()) : levels.back();
    for (std::size_t a = 0; a < matrix.labels.size(); ++a)
      for (std::size_t b = 0; b < matrix.labels.size(); ++b) {
        const PathClass path = matrix.paths[a][b];
        const bool same_numa = level == kLevels - 1 && matrix.numa[a] && matrix.numa[a] == matrix.numa[b];
        if (a != b && (same_numa || (path >= PathClass::Pix && path <= paths[level]))) groups.join(a, b);
      }
    levels.push_back(std::move(groups));
  }
  return levels;
}

/// One number per group, in the order of their first members.
std::int64_t number_of(std::map<std::size_t, std::int64_t>& known, std::size_t root,
                       const std::function<std::int64_t()>& make) {
  const auto found = known.find(root);
  return found != known.end() ? found->second : known[root] = make();
}

}  // namespace

NodeLayout layout_of(const PathMatrix& matrix) {
  const auto levels = levels_of(matrix);
  NodeLayout layout;
  std::map<std::size_t, std::int64_t> sockets, bridges, outer, inner;
  for (std::size_t i = 0; i < matrix.labels.size(); ++i) {
    const std::int64_t socket = number_of(sockets, levels[3].find(i), [&] { return layout.sockets++; });
    DevicePlace place{.name = i < matrix.num_gpus ? "" : matrix.labels[i]};
    place.bridge = number_of(bridges, levels[2].find(i), [&] {
      layout.bridges.push_back(socket);
      return std::int64_t(layout.bridges.size()) - 1;
    });
    const auto add_switch = [&](std::int64_t parent) {
      layout.switches.push_back({place.bridge, parent, {}});
      return std::int64_t(layout.switches.size()) - 1;
    };
    const bool is_cascaded = levels[1].size(i) > levels[0].size(i);
    if (is_cascaded) {
      const std::int64_t parent = number_of(outer, levels[1].find(i), [&] { return add_switch(-1); });
      place.pcie_switch = number_of(inner, levels[0].find(i), [&] { return add_switch(parent); });
    } else if (levels[0].size(i) > 1) {
      place.pcie_switch = number_of(inner, levels[0].find(i), [&] { return add_switch(-1); });
    }
    (i < matrix.num_gpus ? layout.gpus : layout.nics).push_back(std::move(place));
  }
  return layout;
}

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
