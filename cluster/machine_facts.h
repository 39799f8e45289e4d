// What a program or a driver says of a machine: how near its devices are, places and links, before it is known what
// they carry; and the layout that follows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/machine.h"
#include "cluster/node_layout.h"

namespace gpuplan {

/// Classes of paths as `nvidia-smi topo -m` calls them.
enum class PathClass : std::uint8_t { Self, NvLink, Pix, Pxb, Phb, Node, Sys };

/// Paths between all GPUs and adapters. A pair that NVLinks hide has NvLink: it joins nothing here.
struct PathMatrix {
  std::vector<std::string> labels;  // GPUs, then the names of adapters
  std::size_t num_gpus = 0;
  std::vector<std::vector<PathClass>> paths;      // [a][b]
  std::vector<std::optional<std::int64_t>> numa;  // of each
};

/// Sockets (NUMA nodes), host bridges and PCIe switches, numbered in the order of their first devices; no direct links.
NodeLayout layout_of(const PathMatrix& matrix);

struct MachineFacts {
  NodeLayout layout;  // places of GPUs and adapters; direct links without rates
  bool has_nvswitch = false;
  std::optional<std::int64_t> links_to_switch;              // NVLinks of a GPU to the NVSwitch
  std::optional<std::int64_t> pcie_generation, pcie_lanes;  // of the GPUs' slots
  std::string compute_capability;                           // "8.0"; empty: not said
  std::vector<std::string> assumptions;
};

/// Fabric that joins `num_gpus` GPUs: a switch; links from each to several or to one other; else PCIe, with
/// peer-to-peer or without.
FabricKind fabric_of(const MachineFacts& facts, std::int64_t num_gpus, bool has_peer_to_peer);

/// Layout, slots, fabric and NVLink rate of `node`. `per_link`: one NVLink, one direction; 0: not known.
/// Requires: the kinds of GPUs and gpus_per_node are set.
void apply(const MachineFacts& facts, Machine& node, BytesPerSec per_link);

}  // namespace gpuplan
