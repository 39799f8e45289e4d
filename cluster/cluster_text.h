// The YAML of a cluster, complete: what --cluster reads back to the same machine.
#pragma once

#include <string>

#include "cluster/cluster_spec.h"

namespace gpuplan {

/// load_cluster() on a file with this text gives an equal ClusterSpec, but for `file`, and for `memory_in_use`, which
/// is of the moment and not written.
std::string cluster_file_text(const ClusterSpec& cluster);

}  // namespace gpuplan
