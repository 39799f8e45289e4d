// The kinds of fabric inside a machine, as data files spell them and as people read them.
#pragma once

#include <string>

#include "base/name_table.h"
#include "cluster/cluster_spec.h"

namespace gpuplan {

/// NVLink between GPUs: through a switch, from each to each, or bridges between pairs.
bool is_nvlink(FabricKind fabric);
/// GPUs on a board of their own, linked by something other than PCIe.
bool is_board(FabricKind fabric);

NameTable<FabricKind> names_of(FabricKind);  // "nvswitch", "pcie-host-staged", …

/// "PCIe 4.0 x16, peer-to-peer": the fabric of a machine with such GPUs.
std::string describe_fabric(FabricKind fabric, const GpuSpec& gpu);

}  // namespace gpuplan
