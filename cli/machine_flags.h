// The flags that say which machine: --gpus, or --cluster with --num-gpus and --gpu.
#pragma once

#include <optional>

#include "cluster/cluster_spec.h"

namespace CLI {
class App;
}

namespace gpuplan {

/// Empty when neither --gpus nor --cluster is given. Throws InputError.
std::optional<ClusterSpec> given_machine(const CLI::App& app);

}  // namespace gpuplan
