#include "run/launch.h"

#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"

namespace gpuplan {
namespace {

std::optional<std::int64_t> number_in(const char* name) {
  const char* const text = std::getenv(name);
  if (!text) return {};
  try {
    return parse_integer(text, name, 0);
  } catch (const InputError&) {
    throw InputError(name, fmt::format("'{}' in the environment is not a rank or a number of ranks", text), "is it left over from another job? unset it");
  }
}

/// The variables of one launcher.
struct Names {
  Launcher launcher;
  const char *rank, *size, *local_rank, *local_size;
};
constexpr Names kNames[] = {
    {Launcher::Mpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {Launcher::Mpi, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {Launcher::Slurm, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
    {Launcher::Torchrun, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}};

/// srun sets PMIX_RANK or PMI_RANK for its tasks; a batch script itself has SLURM_PROCID too, and is no rank.
bool is_of(const Names& names) {
  if (names.launcher == Launcher::Slurm) return std::getenv("SLURM_STEP_ID") && std::getenv("PMIX_RANK") && number_in(names.size).value_or(1) > 1;
  if (names.launcher == Launcher::Torchrun) return std::getenv("TORCHELASTIC_RUN_ID") || std::getenv("LOCAL_WORLD_SIZE");
  return true;
}

}  // namespace

LaunchedRank read_launcher() {
  for (const Names& names : kNames) {
    if (!is_of(names)) continue;
    const auto rank = number_in(names.rank), size = number_in(names.size);
    if (!rank || !size) continue;
    if (*rank >= *size) throw InputError(names.rank, fmt::format("rank {} of {} in the environment", *rank, *size), "is it left over from another job? unset it");
    return {names.launcher, *rank, *size, number_in(names.local_rank).value_or(*rank), number_in(names.local_size).value_or(*size)};
  }
  return {};
}

}  // namespace gpuplan
