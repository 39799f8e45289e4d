// Cluster files: the machines of data/clusters and those people write, in one schema (data/clusters/README.md).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster_keys.h"
#include "cluster/cluster_spec.h"
#include "cluster/machine.h"

namespace gpuplan {

struct ClusterFile {
  std::string id, name, file;
  Machine node;                     // one machine: every rank of it once
  std::vector<StatedGpu> own_gpus;  // `gpu_specs`
  std::int64_t num_nodes = 1;
  std::optional<std::int64_t> num_gpus;  // in place of all of the nodes
  bool has_network{};
  bool states_price{};                     // price_usd_h is there, even as null
  std::optional<double> usd_per_hour;      // of one whole machine
  std::optional<double> usd_per_gpu_hour;  // in place of it
  std::string price_source;
  std::vector<std::string> assumptions;
};

/// Throws InputError listing every problem with its line.
/// `gpu` names the GPU where the file does not: the text of `nvidia-smi topo -m`, NCCL's topology dump.
ClusterFile read_cluster_file(const std::filesystem::path& path, const std::optional<std::string>& gpu = {});

std::vector<std::string> list_clusters();  // ids in data/clusters, sorted

}  // namespace gpuplan
