#include "cluster/machine_builder.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/narrow.h"
#include "cluster/cluster_spec.h"

namespace gpuplan {
namespace {

/// The switches above a device, from the nearest on.
std::vector<std::int64_t> switches_above(const NodeLayout& layout, const DevicePlace& place) {
  std::vector<std::int64_t> chain;
  for (std::int64_t at = place.pcie_switch; at >= 0 && chain.size() <= layout.switches.size();
       at = layout.switches[std::size_t(at)].parent)
    chain.push_back(at);
  return chain;
}

std::vector<std::size_t> nearest_adapters(const NodeLayout& layout, const DevicePlace& gpu) {
  std::vector<std::size_t> nearest;
  PathClass best = PathClass::Sys;
  for (std::size_t i = 0; i < layout.nics.size(); ++i) {
    const PathClass path = pcie_path(layout, gpu, layout.nics[i]);
    if (path < best) nearest.clear();
    best = std::min(best, path);
    if (path == best) nearest.push_back(i);
  }
  return nearest;
}

}  // namespace

PathClass pcie_path(const NodeLayout& layout, const DevicePlace& a, const DevicePlace& b) {
  const auto socket = [&](const DevicePlace& place) { return layout.bridges[std::size_t(place.bridge)]; };
  if (a.pcie_switch >= 0 && a.pcie_switch == b.pcie_switch) return PathClass::Pix;
  for (const std::int64_t above : switches_above(layout, a))
    for (const std::int64_t other : switches_above(layout, b))
      if (above == other) return PathClass::Pxb;
  if (a.bridge == b.bridge) return PathClass::Phb;
  return socket(a) == socket(b) ? PathClass::Node : PathClass::Sys;
}

std::vector<std::vector<std::size_t>> share_adapters(const NodeLayout& layout) {
  std::vector<std::vector<std::size_t>> nearest, shared;
  for (const DevicePlace& gpu : layout.gpus) nearest.push_back(nearest_adapters(layout, gpu));
  for (std::size_t gpu = 0; gpu < nearest.size(); ++gpu) {
    const auto& nics = nearest[gpu];
    const auto num_gpus = std::size_t(std::count(nearest.begin(), nearest.end(), nics));
    const auto position = std::size_t(std::count(nearest.begin(), nearest.begin() + std::ptrdiff_t(gpu), nics));
    std::vector<std::size_t> mine;
    for (std::size_t i = 0; i < (nics.size() + num_gpus - 1) / num_gpus; ++i)
      mine.push_back(nics[(position * nics.size() / num_gpus + i) % nics.size()]);
    shared.push_back(std::move(mine));
  }
  return shared;
}

std::vector<bool> used_adapters(const NodeLayout& layout) {
  const bool have_places = !layout.gpus.empty() && !layout.nics.empty() && layout.nics.front().bridge >= 0;
  std::vector<bool> is_used(layout.nics.size(), !have_places);
  if (!have_places) return is_used;
  for (const auto& mine : share_adapters(layout))
    for (const std::size_t nic : mine) is_used[nic] = true;
  return is_used;
}

BytesPerSec rate_of_used_adapters(const NodeLayout& layout) {
  const std::vector<bool> is_used = used_adapters(layout);
  BytesPerSec sum;
  for (std::size_t i = 0; i < is_used.size(); ++i)
    if (is_used[i]) sum = sum + layout.nics[i].rate;
  return sum;
}

namespace {

/// Builds one machine; members are what the parts need of each other.
struct Builder {
  Topology& topology;
  MachineShape& shape;
  const ClusterSpec& cluster;
  const NodeLayout& layout;
  const MachineRates& rates;
  std::vector<std::uint32_t> memories, bridges, main_bridges, switches;

  std::uint32_t add(VertexKind kind, std::int64_t index, std::string name = {}) {
    if (name.empty()) name = fmt::format("{} {}", to_string(kind), index);
    return topology.add_vertex({kind, 0, index, std::move(name)});
  }

  std::int64_t socket_of(const DevicePlace& place) const { return layout.bridges[std::size_t(place.bridge)]; }

  void add_host() {
    for (std::int64_t socket = 0; socket < layout.sockets; ++socket) {
      memories.push_back(add(VertexKind::Memory, socket));
      main_bridges.push_back(kNone);
    }
    for (std::size_t i = 0; i < layout.bridges.size(); ++i) {
      const auto socket = std::size_t(layout.bridges[i]);
      bridges.push_back(add(VertexKind::HostBridge, std::int64_t(i)));
      if (main_bridges[socket] != kNone) {
        topology.connect(bridges.back(), main_bridges[socket], {LinkKind::Memory, rates.memory, {}, "inside a socket"});
        continue;
      }
      main_bridges[socket] = bridges.back();
      topology.connect(bridges.back(), memories[socket], {LinkKind::Memory, rates.memory, {}, rates.host_source});
    }
    for (std::size_t a = 0; a < main_bridges.size(); ++a)
      for (std::size_t b = a + 1; b < main_bridges.size(); ++b)
        if (main_bridges[a] != kNone && main_bridges[b] != kNone)
          topology.connect(main_bridges[a], main_bridges[b],
                           {LinkKind::Socket, rates.socket_link, {}, rates.host_source});
  }

  void add_switches() {
    for (std::size_t i = 0; i < layout.switches.size(); ++i)
      switches.push_back(add(VertexKind::PcieSwitch, std::int64_t(i)));
    for (std::size_t i = 0; i < layout.switches.size(); ++i) {
      const PcieSwitchPlace& place = layout.switches[i];
      const BytesPerSec uplink = place.uplink.value > 0 ? place.uplink * rates.pcie_share : rates.pcie;
      const std::uint32_t above =
          place.parent >= 0 ? switches[std::size_t(place.parent)] : bridges[std::size_t(place.bridge)];
      topology.connect(switches[i], above, {LinkKind::Pcie, uplink, {}, "uplink of a PCIe switch"});
    }
  }

  std::uint32_t slot_of(const DevicePlace& place) const {
    return place.pcie_switch >= 0 ? switches[std::size_t(place.pcie_switch)] : bridges[std::size_t(place.bridge)];
  }

  void add_gpus() {
    const bool is_cpu = cluster.fabric == FabricKind::SharedMemory;
    const bool is_over_pcie = cluster.fabric == FabricKind::Pcie || cluster.fabric == FabricKind::PcieHostStaged;
    const Seconds latency = is_over_pcie || is_cpu ? rates.intra_latency / 2 : Seconds{};
    for (std::size_t i = 0; i < layout.gpus.size(); ++i) {
      const DevicePlace& place = layout.gpus[i];
      shape.gpus.push_back(add(VertexKind::Gpu, std::int64_t(i), is_cpu ? fmt::format("rank {}", i) : place.name));
      shape.memory_of.push_back(memories[std::size_t(socket_of(place))]);
      if (is_cpu)
        topology.connect(shape.gpus.back(), memories[0],
                         {LinkKind::SharedMemory, std::max(rates.pcie, rates.ring), latency, cluster.intra.source});
      else
        topology.connect(shape.gpus.back(), slot_of(place), {LinkKind::Pcie, rates.pcie, latency, rates.host_source});
    }
  }

  void add_nvswitch() {
    if (cluster.fabric != FabricKind::NvSwitch) return;
    const std::uint32_t nvswitch = add(VertexKind::NvSwitch, 0, "NVSwitch");
    for (const std::uint32_t gpu : shape.gpus) {
      const auto up =
          topology.add_link(gpu, nvswitch, {LinkKind::NvLink, rates.ring, rates.intra_latency / 2, rates.ring_source});
      const auto down =
          topology.add_link(nvswitch, gpu, {LinkKind::NvLink, rates.ring, rates.intra_latency / 2, rates.ring_source});
      if (gpu == shape.gpus.front()) shape.folded_way = {up, down};
    }
  }

  /// Rate of a direct link. Where rings use all direct links of a GPU together, these share what the ring reaches.
  BytesPerSec direct_rate(const DirectLink& link) const {
    if (!shape.has_striped_rings && link.rate.value > 0) return link.rate * rates.nvlink_share;
    if (!shape.has_striped_rings) return rates.ring;
    std::vector<std::int64_t> links_of(layout.gpus.size());
    for (const DirectLink& each : layout.direct_links)
      links_of[std::size_t(each.a)] += each.num_links, links_of[std::size_t(each.b)] += each.num_links;
    const std::int64_t fewest = *std::min_element(links_of.begin(), links_of.end());
    return rates.ring * (double(link.num_links) / double(std::max<std::int64_t>(1, fewest)));
  }

  void add_direct_links() {
    const LinkKind kind = cluster.fabric == FabricKind::InfinityFabric ? LinkKind::InfinityFabric : LinkKind::NvLink;
    for (const DirectLink& link : layout.direct_links)
      topology.connect(shape.gpus[std::size_t(link.a)], shape.gpus[std::size_t(link.b)],
                       {kind, direct_rate(link), rates.intra_latency, rates.ring_source});
  }

  void add_devices() {
    for (std::size_t i = 0; i < layout.nics.size(); ++i) {
      const DevicePlace& place = layout.nics[i];
      shape.nics.push_back(add(VertexKind::Nic, std::int64_t(i), place.name.empty() ? "" : place.name));
      topology.connect(shape.nics.back(), slot_of(place),
                       {LinkKind::Pcie, std::max(rates.pcie, rates.nics[i]), {}, "PCIe slot of an adapter"});
    }
    const auto num_drives = std::max<std::int64_t>(1, layout.num_nvme);
    const std::uint32_t drive =
        add(VertexKind::Nvme, 0, num_drives > 1 ? fmt::format("{} NVMe drives", num_drives) : "NVMe drive");
    topology.connect(drive, cluster.fabric == FabricKind::SharedMemory ? memories[0] : bridges[0],
                     {LinkKind::Pcie, rates.nvme * double(num_drives), {}, "profile"});
    shape.nvme_of.assign(layout.gpus.size(), drive);
  }

  void assign_adapters() {
    const auto shared = share_adapters(layout);
    for (std::size_t gpu = 0; gpu < layout.gpus.size(); ++gpu)
      for (const std::size_t nic : shared[gpu]) shape.adapters_of[gpu].push_back(shape.nics[nic]);
    assign_relays();
  }

  /// On a board whose GPUs all reach each other over NVLink, what a GPU far from the adapters sends to other machines
  /// goes over NVLink to a GPU that shares a PCIe switch with one: NCCL's rings begin at an adapter with the GPU
  /// nearest to it and end there, and PXN relays single messages. Source:
  /// NVIDIA/nccl, ncclTopoSearchRecNet of src/graph/search.cc, ncclTopoComputePaths of src/graph/paths.cc @04cdb808.
  void assign_relays() {
    if (cluster.fabric != FabricKind::NvSwitch) return;
    const auto is_near = [&](std::size_t gpu, std::size_t nic) {
      return pcie_path(layout, layout.gpus[gpu], layout.nics[nic]) <= PathClass::Pxb;
    };
    bool has_far_gpu = false;
    for (std::size_t gpu = 0; gpu < layout.gpus.size(); ++gpu) {
      bool is_far = true;
      for (std::size_t nic = 0; nic < layout.nics.size(); ++nic) is_far &= !is_near(gpu, nic);
      has_far_gpu |= is_far;
    }
    if (!has_far_gpu) return;
    std::vector<std::uint32_t> relays;
    std::vector<std::size_t> uses(layout.gpus.size());
    for (std::size_t nic = 0; nic < layout.nics.size(); ++nic) {
      std::optional<std::size_t> best;  // of several the one that relays least
      for (std::size_t gpu = 0; gpu < layout.gpus.size(); ++gpu)
        if (is_near(gpu, nic) && (!best || uses[gpu] < uses[*best])) best = gpu;
      if (!best) return;
      ++uses[*best];
      relays.push_back(shape.gpus[*best]);
    }
    shape.relay_of = std::move(relays);
  }

  void build() {
    const FabricKind fabric = cluster.fabric;
    shape.is_staged = fabric == FabricKind::PcieHostStaged || fabric == FabricKind::SharedMemory;
    shape.has_like_neighbours = fabric == FabricKind::NvSwitch || fabric == FabricKind::SharedMemory;
    shape.has_striped_rings = fabric == FabricKind::NvLinkMesh || fabric == FabricKind::InfinityFabric;
    shape.has_ring_per_adapter = fabric == FabricKind::NvSwitch || shape.has_striped_rings || layout.nics.size() > 1;
    add_host();
    add_switches();
    add_gpus();
    add_nvswitch();
    add_direct_links();
    add_devices();
    shape.adapters_of.resize(layout.gpus.size());
    if (!layout.nics.empty()) assign_adapters();
    shape.num_vertices = narrow<std::uint32_t>(topology.num_vertices());
    shape.num_links = narrow<std::uint32_t>(topology.num_links());
  }
};

}  // namespace

MachineRates rates_of(const ClusterSpec& cluster, const NodeLayout& layout, const LinkTable& links,
                      const Profile& profile) {
  const GpuSpec& gpu = cluster.gpus.front();
  const PcieSlot slot{gpu.pcie_generation, gpu.pcie_lanes};
  const bool is_cpu = gpu.is_cpu;
  MachineRates rates;
  rates.nvlink_share = profile.nvlink_efficiency;
  rates.pcie_share = profile.host_link_efficiency;
  rates.ring = reached_inside(cluster, profile).bandwidth;
  rates.pcie = reached_host_link(cluster, profile);
  if (cluster.fabric == FabricKind::PcieHostStaged)  // narrower slots than the card's in proportion
    rates.alone = std::max(cluster.intra.bandwidth,
                           links.staging_rate(slot, profile) * (cluster.host_link / links.host_link(slot)));
  rates.memory = layout.memory_bandwidth.value > 0 ? layout.memory_bandwidth
                 : is_cpu                          ? cluster.host_link * double(cluster.gpus_per_node)
                                                   : links.memory_bandwidth(slot);
  rates.socket_link = layout.socket_link.value > 0 ? layout.socket_link : links.socket_link(slot);
  rates.nvme = profile.nvme_bandwidth;
  rates.intra_latency = cluster.intra.latency;
  rates.inter_latency = cluster.inter.latency;
  rates.ring_source = cluster.intra.source;
  rates.host_source = is_cpu ? gpu.source : "effective PCIe and host rates, data/links.yaml";
  rates.nic_source = cluster.inter.source;
  const double stated = rate_of_used_adapters(layout).value;
  const double whole = cluster.inter.bandwidth.value * double(cluster.gpus_per_node);
  for (const DevicePlace& nic : layout.nics)
    rates.nics.push_back(whole > 0 && stated > 0 ? nic.rate * (whole / stated)
                         : whole > 0             ? BytesPerSec{whole / double(layout.nics.size())}
                                                 : std::max(BytesPerSec{1}, nic.rate * profile.network_efficiency));
  return rates;
}

void build_machine(Topology& topology, MachineShape& shape, const ClusterSpec& cluster, const NodeLayout& layout,
                   const MachineRates& rates) {
  Builder{topology, shape, cluster, layout, rates, {}, {}, {}, {}}.build();
}

}  // namespace gpuplan
