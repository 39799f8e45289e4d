// Internal to the topology: one machine as vertices and links, from its layout.
#pragma once

#include "cluster/links.h"
#include "cluster/machine_facts.h"
#include "cluster/profile/profile.h"
#include "cluster/topology.h"
#include "cluster/topology_graph.h"

namespace gpuplan {

/// The rates of a machine's links, as transfers reach them.
struct MachineRates {
  BytesPerSec ring;         // a ring over all its GPUs
  BytesPerSec alone;        // two GPUs through host memory when nobody else uses it; 0: as the ring
  BytesPerSec pcie;         // between a GPU and its host
  double pcie_share = 1;    // of what a PCIe link reaches in copies
  double nvlink_share = 1;  // of what rings over NVLink reach
  BytesPerSec memory, socket_link, nvme;
  std::vector<BytesPerSec> nics;
  Seconds intra_latency, inter_latency;
  std::string ring_source, host_source, nic_source;
};

MachineRates rates_of(const ClusterSpec& cluster, const NodeLayout& layout, const LinkTable& links,
                      const Profile& profile);

/// Machine 0, as the whole of `topology`; `shape` receives what stands where.
void build_machine(Topology& topology, MachineShape& shape, const ClusterSpec& cluster, const NodeLayout& layout,
                   const MachineRates& rates);

/// Assigns adapters to GPUs: the nearest, shared out among the GPUs to which they are nearest. Source:
/// ncclTopoGetLocalNet, NVIDIA/nccl 2.30.7 src/graph/topo.cc.
std::vector<std::vector<std::size_t>> share_adapters(const NodeLayout& layout);

/// Per adapter: some GPU sends by it. Those of a storage network are none.
std::vector<bool> used_adapters(const NodeLayout& layout);
BytesPerSec rate_of_used_adapters(const NodeLayout& layout);

/// Connects over PCIe.
PathClass pcie_path(const NodeLayout& layout, const DevicePlace& a, const DevicePlace& b);

}  // namespace gpuplan
