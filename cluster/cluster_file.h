// Cluster files: the machines of data/clusters and those people write, in one schema (data/clusters/README.md).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster_keys.h"

namespace gpuplan {

/// Throws InputError listing every problem with its line.
/// `gpu` names the GPU where the file does not: the text of `nvidia-smi topo -m`, NCCL's topology dump.
ClusterFile read_cluster_file(const std::filesystem::path& path, const std::optional<std::string>& gpu = {});

std::vector<std::string> list_clusters();  // ids in data/clusters, sorted

}  // namespace gpuplan
