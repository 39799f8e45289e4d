// A machine, or several alike, as a GPU list or a cluster file describes it; `build_cluster` works out the links.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster_spec.h"
#include "cluster/gpu_file.h"
#include "cluster/links.h"

namespace gpuplan {

/// Statement of a file about the rings over a level, in place of what is usual there.
struct StatedLink {
  std::optional<BytesPerSec> bus, all_reduce_bus;
  std::optional<Seconds> latency;
  std::string source;
};

struct Machine {
  std::vector<GpuFile> kinds;             // the products in it
  std::vector<std::size_t> kind_of_rank;  // node by node; an index into `kinds`
  std::int64_t gpus_per_node = 1;
  FabricKind fabric = FabricKind::None;
  std::string fabric_note, fabric_text;                     // added to the text for people; in place of it
  std::optional<std::int64_t> pcie_generation, pcie_lanes;  // of the slots, where they are less than the card's
  StatedLink intra, inter;                                  // inside a node, between nodes
  std::optional<BytesPerSec> nvlink, host_link;             // stated by the file
  BytesPerSec nic_per_gpu;                                  // a GPU's share of its node's adapters
  Bytes host_memory;                                        // per node; 0: not known
  std::int64_t host_cores = 0;                              // of ranks on a CPU
  HostSpec host;                                            // as far as it is stated
  NodeLayout layout;                                        // as far as it is stated
};

/// Above this a typing slip is likelier than a cluster.
inline constexpr std::int64_t kMostGpus = 131072;

/// Direct links between all pairs of GPUs of a machine: real meshes have 8 or 16 GPUs, and links grow with the square.
inline constexpr std::int64_t kMostInMesh = 64;

/// The cluster without name, price and assumptions. A ring over bridged pairs of more than two GPUs falls to PCIe.
ClusterSpec build_cluster(const Machine& machine);

/// Sets the price of a GPU hour from the catalogue (compared_prices): the mean over the ranks when all are known.
void price_from_catalogue(ClusterSpec& cluster, const Machine& machine);

/// Sockets that a machine with so many GPUs usually has.
std::int64_t usual_sockets(FabricKind fabric, std::int64_t gpus_per_node);

/// `cluster.layout` with everything filled in but rates; what was assumed goes to `assumptions`.
/// SXM boards: two sockets, every GPU with its adapters on a PCIe switch. Cards: in slots of the sockets' host bridges.
NodeLayout complete_layout(const ClusterSpec& cluster, std::vector<std::string>& assumptions);

/// Every GPU has an adapter of its own at so much network per GPU; below it a machine has one.
bool gpus_have_own_adapters(BytesPerSec nic_per_gpu);

/// The slot of such a GPU in the machine: what both can.
PcieSlot slot_of(const Machine& machine, const GpuSpec& gpu);

/// Fabric that joins such GPUs in one machine when nobody says.
FabricKind usual_fabric(const std::vector<GpuFile>& kinds);

}  // namespace gpuplan
