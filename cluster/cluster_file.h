// Machines as text: cluster files, and what other programs say of a machine.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster_keys.h"
#include "cluster/cluster_spec.h"
#include "cluster/machine_facts.h"

namespace gpuplan {

// Cluster files: the machines of data/clusters and those people write, in one schema (data/clusters/README.md).

/// Throws InputError listing every problem with its line.
/// `gpu` names the GPU where the file does not: the text of `nvidia-smi topo -m`, NCCL's topology dump.
ClusterFile read_cluster_file(const std::filesystem::path& path, const std::optional<std::string>& gpu = {});

std::vector<std::string> list_clusters();  // ids in data/clusters, sorted

// The YAML of a cluster, complete: what --cluster reads back to the same machine.

/// load_cluster() on a file with this text gives an equal ClusterSpec, but for `file`, and for `memory_in_use`, which
/// is of the moment and not written.
std::string cluster_file_text(const ClusterSpec& cluster);

// Machines described by other programs: the text of `nvidia-smi topo -m` and NCCL's topology dump
// (NCCL_TOPO_DUMP_FILE). Neither names the GPU; what they say of places and links becomes a NodeLayout.

enum class MachineTextKind : std::uint8_t { Yaml, TopoMatrix, NcclXml };

/// Kind of a description by its content: XML begins with '<', the matrix has a header line with GPU0.
MachineTextKind kind_of_text(std::string_view text);

/// Throw InputError with where = "file:line".
MachineFacts read_topo_matrix(std::string_view text, const std::string& file);
MachineFacts read_nccl_topology(std::string_view text, const std::string& file);

/// A cluster file from either; `gpu` names the GPU. Throws InputError.
ClusterFile read_machine_text(const std::string& text, MachineTextKind kind, const std::string& file,
                              const std::optional<std::string>& gpu);

}  // namespace gpuplan
