// The parts of a machine's layout that nobody stated: how machines with such GPUs are usually built.
#pragma once

#include <string>
#include <vector>

#include "cluster/cluster_spec.h"

namespace gpuplan {

/// Sockets that a machine with so many GPUs usually has.
std::int64_t usual_sockets(FabricKind fabric, std::int64_t gpus_per_node);

/// `cluster.layout` with everything filled in but rates; what was assumed goes to `assumptions`.
/// SXM boards: two sockets, every GPU with its adapters on a PCIe switch. Cards: in slots of the sockets' host bridges.
NodeLayout complete_layout(const ClusterSpec& cluster, std::vector<std::string>& assumptions);

}  // namespace gpuplan
