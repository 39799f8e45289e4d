#include "run/launch.h"

#include <cstdlib>
#include <filesystem>

#include <unistd.h>

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

bool is_on_path(const std::string& program) {
  const char* const path = std::getenv("PATH");
  for (const std::string& dir : split(path ? path : "", ':'))
    if (access((std::filesystem::path(dir) / program).c_str(), X_OK) == 0) return true;
  return false;
}

}  // namespace

LaunchedRank read_launcher() {
  for (const Names& names : kNames) {
    const auto rank = number_in(names.rank), size = number_in(names.size);
    if (!rank || !size || !is_of(names)) continue;
    if (*rank >= *size) throw InputError(names.rank, fmt::format("rank {} of {} in the environment", *rank, *size), "is it left over from another job? unset it");
    return {names.launcher, *rank, *size, number_in(names.local_rank).value_or(*rank), number_in(names.local_size).value_or(*size)};
  }
  return {};
}

std::vector<std::string> mpirun_command(std::int64_t num_ranks, const std::vector<std::string>& arguments) {
  if (!is_on_path("mpirun")) throw EnvError("mpirun is not on the PATH: install openmpi-bin to run several CPU ranks");
  std::vector<std::string> command{"mpirun", "--quiet", "-n", std::to_string(num_ranks), "--oversubscribe", "--bind-to", "none"};
  if (geteuid() == 0) command.push_back("--allow-run-as-root");  // mpirun refuses otherwise, in containers too
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

}  // namespace gpuplan
