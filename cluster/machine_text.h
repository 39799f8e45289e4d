// Machines described by other programs: the text of `nvidia-smi topo -m` and NCCL's topology dump
// (NCCL_TOPO_DUMP_FILE). Neither names the GPU; what they say of places and links becomes a NodeLayout.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster_keys.h"
#include "cluster/machine_facts.h"

namespace gpuplan {

enum class MachineTextKind : std::uint8_t { Yaml, TopoMatrix, NcclXml };

/// By content: XML begins with '<', the matrix has a header line with GPU0.
MachineTextKind kind_of_text(std::string_view text);

/// Throw InputError with where = "file:line".
MachineFacts read_topo_matrix(std::string_view text, const std::string& file);
MachineFacts read_nccl_topology(std::string_view text, const std::string& file);

/// A cluster file from either; `gpu` names the GPU. Throws InputError.
ClusterFile read_machine_text(const std::string& text, MachineTextKind kind, const std::string& file,
                              const std::optional<std::string>& gpu);

}  // namespace gpuplan
