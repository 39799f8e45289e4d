// What a program or a driver says of a machine: places and links, before it is known what they carry.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/machine.h"

namespace gpuplan {

struct MachineFacts {
  NodeLayout layout;  // places of GPUs and adapters; direct links without rates
  bool has_nvswitch = false;
  std::optional<std::int64_t> links_to_switch;              // NVLinks of a GPU to the NVSwitch
  std::optional<std::int64_t> pcie_generation, pcie_lanes;  // of the GPUs' slots
  std::string compute_capability;                           // "8.0"; empty: not said
  std::vector<std::string> assumptions;
};

/// What joins `num_gpus` GPUs: a switch; links from each to several or to one other; else PCIe, with peer-to-peer or
/// without.
FabricKind fabric_of(const MachineFacts& facts, std::int64_t num_gpus, bool has_peer_to_peer);

/// Layout, slots, fabric and NVLink rate of `node`. `per_link`: one NVLink, one direction; 0: not known.
/// Requires: the kinds of GPUs and gpus_per_node are set.
void apply(const MachineFacts& facts, Machine& node, BytesPerSec per_link);

}  // namespace gpuplan
