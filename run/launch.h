// Who started this process: the user alone, gpuplan itself, or a launcher that made it one of several ranks (mpirun,
// srun, torchrun).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan {

enum class Launcher : std::uint8_t { None, Gpuplan, Mpi, Slurm, Torchrun };

struct LaunchedRank {
  Launcher launcher{};
  std::int64_t rank = 0, size = 1, local_rank = 0, local_size = 1;
  bool has_mpi = false;  // MPI finds the other ranks: mpirun's, and srun's where it offers PMIx
};

/// Variables that gpuplan gives to ranks that it starts itself (run/supervise).
inline constexpr const char *kRankVariable = "GPUPLAN_RANK", *kWorldSizeVariable = "GPUPLAN_WORLD_SIZE";

/// Reads rank and world size from the environment: GPUPLAN_RANK, OMPI_COMM_WORLD_*, PMI_*, SLURM_* of a step, or RANK
/// and WORLD_SIZE of torchrun. Throws InputError when it contradicts itself.
LaunchedRank read_launcher();

// The compact lists in Slurm's variables: nodes as "gpu[01-03,7],login", counts as "2(x3),1".

/// The nodes of a hostlist in its order; several brackets in a name are a product, the last one fastest. Throws
/// InputError naming `where`. Source: `man scontrol`, show hostnames.
std::vector<std::string> expand_nodes(std::string_view list, std::string_view where);

/// A count per node. Throws InputError naming `where`.
std::vector<std::int64_t> expand_counts(std::string_view list, std::string_view where);

}  // namespace gpuplan
