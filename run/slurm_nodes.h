// The compact lists in Slurm's variables: nodes as "gpu[01-03,7],login", counts as "2(x3),1".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan {

/// The nodes of a hostlist in its order; several brackets in a name are a product, the last one fastest. Throws
/// InputError naming `where`. Source: `man scontrol`, show hostnames.
std::vector<std::string> expand_nodes(std::string_view list, std::string_view where);

/// A count per node. Throws InputError naming `where`.
std::vector<std::int64_t> expand_counts(std::string_view list, std::string_view where);

}  // namespace gpuplan
