// What a topology is made of: vertices, links, the ways over them, and what of a cluster is kept.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace gpuplan {

enum class VertexKind : std::uint8_t { Gpu, PcieSwitch, HostBridge, Memory, NvSwitch, Nic, Leaf, Spine, Nvme, Count };
enum class LinkKind : std::uint8_t { NvLink, Pcie, InfinityFabric, Socket, Memory, Network, SharedMemory, Count };

inline std::string_view to_string(VertexKind kind) {
  static constexpr std::array<std::string_view, std::size_t(VertexKind::Count)> kNames{
      "GPU", "PCIe switch", "host bridge", "memory", "NVSwitch", "NIC", "leaf switch", "spine switch", "NVMe"};
  return kNames.at(std::size_t(kind));
}

inline std::string_view to_string(LinkKind kind) {
  static constexpr std::array<std::string_view, std::size_t(LinkKind::Count)> kNames{
      "NVLink", "PCIe", "Infinity Fabric", "between sockets", "memory", "network", "shared memory"};
  return kNames.at(std::size_t(kind));
}

struct TopologyVertex {
  VertexKind kind{};
  std::int64_t node{};   // machine; of leaf and spine switches: 0
  std::int64_t index{};  // among its kind in the machine; of a GPU: its local rank
  std::string name;      // "GPU 3", "PCIe switch 1", "node 2 NIC 0"
};

/// One direction of a link.
struct TopologyLink {
  LinkKind kind{};
  BytesPerSec capacity;
  Seconds latency;
  std::string source;  // where the capacity comes from
};

/// `weight`: bytes this link carries per byte of the transfer (striping over several adapters, staging through memory
/// twice).
struct LinkUse {
  std::uint32_t link{};
  double weight = 1;
};
using Route = std::vector<LinkUse>;

/// Machines and ranks that are kept when ranks that behave alike are simulated once. Empty: all.
struct TopologyFold {
  std::vector<std::int32_t>
      node_stands_for;            // per machine: the kept machine that stands for it (indices of kept machines)
  bool one_gpu_per_node = false;  // all GPUs of a machine are alike: one is kept (NVSwitch, adapters shared evenly)
};

}  // namespace gpuplan
