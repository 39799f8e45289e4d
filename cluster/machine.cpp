#include "cluster/machine.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "cluster/cluster_spec.h"
#include "cluster/host.h"
#include "cluster/links.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kMostCardsPerSocket = 4;  // slots with 16 lanes on one socket of a usual server
/// Network bandwidth per GPU from which on every GPU has an adapter of its own.
constexpr BytesPerSec kOwnAdapter{50e9 / 8};

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
    const bool has_own = num_gpus == 1 || gpus_have_own_adapters(cluster.inter.bandwidth);
    layout.nics.assign(std::size_t(has_own ? num_gpus : 1), {-1, -1, {}, {}});
  }
  if (!layout.nics.empty() && !have_places(layout.nics)) place_nics(layout, num_gpus);
  if (layout.direct_links.empty()) add_direct_links(layout, cluster.fabric, num_gpus);
  // of a part of a machine: the others were checked against all its GPUs (problem_of)
  std::erase_if(layout.direct_links, [&](const DirectLink& link) { return link.a >= num_gpus || link.b >= num_gpus; });
  return layout;
}

bool gpus_have_own_adapters(BytesPerSec nic_per_gpu) { return nic_per_gpu >= kOwnAdapter; }

PcieSlot slot_of(const Machine& machine, const GpuSpec& gpu) {
  return {std::min(gpu.pcie_generation, machine.pcie_generation.value_or(gpu.pcie_generation)),
          std::min(gpu.pcie_lanes, machine.pcie_lanes.value_or(gpu.pcie_lanes))};
}

namespace {

/// Fabric that a ring through every GPU of a node runs over.
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
  const std::vector<std::size_t>& kinds = machine.kind_of_rank;
  for (auto rank = kinds.begin(); rank != kinds.end();) {
    const auto other = std::find_if(rank, kinds.end(), [&](std::size_t kind) { return kind != *rank; });
    cluster.gpus.add(machine.kinds[*rank].spec, std::size_t(other - rank));
    rank = other;
  }
  cluster.gpus_per_node = machine.gpus_per_node;
  cluster.fabric = ring_fabric(machine);
  cluster.fabric_text = fabric_text(machine, cluster.fabric);
  cluster.host_memory = machine.host_memory;
  cluster.host_cores = machine.host_cores;
  cluster.layout = machine.layout;
  const GpuSpec& first = machine.kinds.front().spec;
  const auto kind = find_host(machine.host.kind, machine.gpus_per_node);
  if (!first.is_cpu)
    cluster.host = filled(machine.host, kind ? *kind : usual_host(machine.fabric, first.id, machine.gpus_per_node));
  const HostShape host_shape{
      machine.layout.sockets > 0 ? machine.layout.sockets : usual_sockets(cluster.fabric, machine.gpus_per_node),
      machine.layout.memory_bandwidth};

  const LinkTable& links = LinkTable::shipped();
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
  const std::vector<GpuPrice> prices = compared_prices(
      machine.kinds, std::int64_t(machine.kind_of_rank.size()) / machine.kinds.front().devices_per_card);
  if (prices.empty()) return;
  double sum = 0;
  std::vector<std::string> sources;
  for (std::size_t i = 0; i < machine.kinds.size(); ++i) {
    sum += prices[i].usd_per_gpu_hour *
           double(std::count(machine.kind_of_rank.begin(), machine.kind_of_rank.end(), i)) /
           double(machine.kinds[i].devices_per_card);
    const std::string prefix = machine.kinds.size() > 1 ? machine.kinds[i].spec.id + ": " : "";
    sources.push_back(prefix + describe_price(prices[i]));
  }
  cluster.price_per_gpu_hour = sum / double(machine.kind_of_rank.size());
  const bool is_one_vendor = std::all_of(prices.begin(), prices.end(),
                                         [&](const GpuPrice& price) { return price.vendor == prices.front().vendor; });
  cluster.price_source = fmt::format("{}{}", is_one_vendor ? "" : "no vendor offers all; ", fmt::join(sources, "; "));
}

FabricKind usual_fabric(const std::vector<GpuFile>& kinds) {
  const auto is_like_first = [&](const GpuFile& gpu) {
    return gpu.spec.has_p2p_over_pcie && gpu.spec.architecture == kinds.front().spec.architecture;
  };
  if (kinds.size() == 1) return kinds.front().machine.fabric;
  return std::all_of(kinds.begin(), kinds.end(), is_like_first) ? FabricKind::Pcie : FabricKind::PcieHostStaged;
}

}  // namespace gpuplan
