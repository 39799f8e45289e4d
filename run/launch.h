// Who started this process: the user alone, or a launcher that made it one of several ranks (mpirun, srun, torchrun).
#pragma once

#include <cstdint>

namespace gpuplan {

enum class Launcher : std::uint8_t { None, Mpi, Slurm, Torchrun };

struct LaunchedRank {
  Launcher launcher{};
  std::int64_t rank = 0, size = 1, local_rank = 0, local_size = 1;
};

/// From the environment: OMPI_COMM_WORLD_*, PMI_*, PMIX_* with SLURM_*, or RANK and WORLD_SIZE of torchrun.
/// Throws InputError when it contradicts itself.
LaunchedRank read_launcher();

}  // namespace gpuplan
