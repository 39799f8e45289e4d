// What hangs where in a machine: sockets, host bridges, PCIe switches, GPUs, network adapters, NVLinks. Read from a
// cluster file, from `nvidia-smi topo -m` or from NCCL's topology dump; what is left open is filled by
// complete_layout().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"

namespace gpuplan {

struct PcieSwitchPlace {
  std::int64_t bridge = 0;
  std::int64_t parent = -1;  // the switch above it; -1: the host bridge
  BytesPerSec uplink;        // raw rate of its port to the host; 0: as its GPUs' slots
  bool operator==(const PcieSwitchPlace&) const = default;
};

/// Slot of a GPU or an adapter.
struct DevicePlace {
  std::int64_t bridge = 0;
  std::int64_t pcie_switch = -1;  // -1: directly on the host bridge
  BytesPerSec rate;               // of an adapter: the rate of its network ports
  std::string name;               // "mlx5_0"; empty: numbered
  bool operator==(const DevicePlace&) const = default;
};

/// NVLinks (or Infinity Fabric) that join two GPUs directly.
struct DirectLink {
  std::int64_t a = 0, b = 0;  // local ranks
  std::int64_t num_links = 1;
  BytesPerSec rate;  // what a ring reaches over all of them, one direction; 0: a share of the GPU's rate
  bool operator==(const DirectLink&) const = default;
};

/// Switches, links or adapters of a machine.
inline constexpr std::int64_t kMostDevices = 4096;

/// One machine; all machines of a cluster are alike. Empty lists and zeros: not stated.
struct NodeLayout {
  std::int64_t sockets = 0;
  std::vector<std::int64_t> bridges;  // the socket of every host bridge
  std::vector<PcieSwitchPlace> switches;
  std::vector<DevicePlace> gpus, nics;
  std::vector<DirectLink> direct_links;
  BytesPerSec memory_bandwidth;  // of one socket, datasheet
  BytesPerSec socket_link;       // between two sockets, one direction, as transfers reach it
  std::int64_t num_nvme = 0;
  std::int64_t leaf_nodes = 0;  // machines on one leaf switch
  double oversubscription = 1;  // of the leaf's links to the spine
  std::string source;

  bool is_stated() const { return *this != NodeLayout{}; }
  bool operator==(const NodeLayout&) const = default;
};

/// Mistake in a stated layout: a place that does not exist, a link between a GPU and itself. Empty: none.
std::string problem_of(const NodeLayout& layout, std::int64_t gpus_per_node);

}  // namespace gpuplan
