#include "cluster/usual_layout.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "cluster/fabric.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kMostCardsPerSocket = 4;  // slots with 16 lanes on one socket of a usual server
/// From this share per GPU on, every GPU has an adapter of its own; below it a machine has one.
constexpr BytesPerSec kOwnAdapter{100e9 / 8};

/// The host bridge of the `index`-th of `count` devices spread evenly in order.
std::int64_t even(std::int64_t index, std::int64_t count, std::int64_t parts) { return index * parts / count; }

/// Hybrid cube mesh of eight V100: six links per GPU. Source: `nvidia-smi topo -m` of a DGX-1V (NVIDIA DGX-1 with Tesla
/// V100 System Architecture, white paper WP-08437-002, figure 4).
constexpr std::array<std::array<std::int64_t, 3>, 16> kCubeMesh{{{0, 1, 1},
                                                                 {0, 2, 1},
                                                                 {0, 3, 2},
                                                                 {0, 4, 2},
                                                                 {1, 2, 2},
                                                                 {1, 3, 1},
                                                                 {1, 5, 2},
                                                                 {2, 3, 2},
                                                                 {2, 6, 1},
                                                                 {3, 7, 1},
                                                                 {4, 5, 1},
                                                                 {4, 6, 1},
                                                                 {4, 7, 2},
                                                                 {5, 6, 2},
                                                                 {5, 7, 1},
                                                                 {6, 7, 2}}};

void add_direct_links(NodeLayout& layout, FabricKind fabric, std::int64_t num_gpus) {
  if (fabric == FabricKind::NvLinkMesh && num_gpus == 8) {
    for (const auto& [a, b, links] : kCubeMesh) layout.direct_links.push_back({a, b, links, {}});
  } else if (fabric == FabricKind::NvLinkMesh || fabric == FabricKind::InfinityFabric) {
    for (std::int64_t a = 0; a < num_gpus; ++a)
      for (std::int64_t b = a + 1; b < num_gpus; ++b) layout.direct_links.push_back({a, b, 1, {}});
  } else if (fabric == FabricKind::NvLinkBridge) {
    for (std::int64_t a = 0; a + 1 < num_gpus; a += 2) layout.direct_links.push_back({a, a + 1, 1, {}});
  }
}

std::string slots_text(const ClusterSpec& cluster, const NodeLayout& layout) {
  if (is_board(cluster.fabric))
    return fmt::format("the usual board: {} socket{}, every GPU with its adapters on a PCIe switch", layout.sockets,
                       layout.sockets == 1 ? "" : "s");
  return fmt::format("the GPUs are in slots of {} socket{}, without PCIe switches", layout.sockets,
                     layout.sockets == 1 ? "" : "s");
}

void place_gpus(NodeLayout& layout, const ClusterSpec& cluster, std::vector<std::string>& assumptions) {
  const std::int64_t num_gpus = cluster.gpus_per_node;
  for (std::int64_t socket = 0; socket < layout.sockets; ++socket) layout.bridges.push_back(socket);
  for (std::int64_t gpu = 0; gpu < num_gpus; ++gpu) {
    const std::int64_t bridge = even(gpu, num_gpus, layout.sockets);
    if (is_board(cluster.fabric)) layout.switches.push_back({bridge, -1, {}});
    layout.gpus.push_back({bridge, is_board(cluster.fabric) ? gpu : -1, {}, {}});
  }
  if (num_gpus > 1 && cluster.fabric != FabricKind::SharedMemory) assumptions.push_back(slots_text(cluster, layout));
}

/// Adapters without a place go beside the GPUs in order.
void place_nics(NodeLayout& layout, std::int64_t num_gpus) {
  const auto num_nics = std::int64_t(layout.nics.size());
  for (std::int64_t nic = 0; nic < num_nics; ++nic) {
    const auto gpu = std::size_t(num_nics >= num_gpus ? even(nic, num_nics, num_gpus) : nic * num_gpus / num_nics);
    DevicePlace& place = layout.nics[std::size_t(nic)];
    place.bridge = layout.gpus[gpu].bridge;
    place.pcie_switch = layout.gpus[gpu].pcie_switch;
  }
}

bool have_places(const std::vector<DevicePlace>& devices) {
  return std::any_of(devices.begin(), devices.end(), [](const DevicePlace& place) { return place.bridge >= 0; });
}

}  // namespace

std::int64_t usual_sockets(FabricKind fabric, std::int64_t gpus_per_node) {
  if (fabric == FabricKind::SharedMemory) return 1;
  return gpus_per_node > kMostCardsPerSocket ? 2 : 1;
}

NodeLayout complete_layout(const ClusterSpec& cluster, std::vector<std::string>& assumptions) {
  NodeLayout layout = cluster.layout;
  const std::int64_t num_gpus = cluster.gpus_per_node;
  if (layout.sockets == 0)
    layout.sockets = layout.bridges.empty() ? usual_sockets(cluster.fabric, num_gpus)
                                            : *std::max_element(layout.bridges.begin(), layout.bridges.end()) + 1;
  if (layout.gpus.empty()) place_gpus(layout, cluster, assumptions);
  if (std::int64_t(layout.gpus.size()) > num_gpus) layout.gpus.resize(std::size_t(num_gpus));  // a part of the machine
  if (layout.nics.empty() && cluster.num_nodes() > 1) {
    const bool has_own = num_gpus == 1 || cluster.inter.bandwidth >= kOwnAdapter * 0.5;
    layout.nics.assign(std::size_t(has_own ? num_gpus : 1), {-1, -1, {}, {}});
  }
  if (!layout.nics.empty() && !have_places(layout.nics)) place_nics(layout, num_gpus);
  if (layout.direct_links.empty()) add_direct_links(layout, cluster.fabric, num_gpus);
  // of a part of a machine: the others were checked against all its GPUs (problem_of)
  std::erase_if(layout.direct_links, [&](const DirectLink& link) { return link.a >= num_gpus || link.b >= num_gpus; });
  return layout;
}

}  // namespace gpuplan
