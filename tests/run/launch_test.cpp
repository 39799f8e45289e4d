#include "run/launch.h"

#include <cstdlib>
#include <map>

#include <doctest/doctest.h>

#include "base/error.h"
#include "device/mpi_command.h"
#include "run/files/error_text.h"

using namespace gpuplan;
using test::check_mentions;
using test::error_text;

namespace {

constexpr const char* kVariables[] = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
                                       "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMIX_RANK", "SLURM_STEP_ID", "SLURM_PROCID",
                                       "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE", "RANK", "WORLD_SIZE", "LOCAL_RANK",
                                       "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID", "PATH"};

/// These variables and no others of any launcher, until the end of the scope.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& wanted) {
    for (const char* name : kVariables) {
      if (const char* const value = std::getenv(name)) before_[name] = value;
      if (std::string(name) != "PATH") unsetenv(name);
    }
    for (const auto& [name, value] : wanted) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const char* name : kVariables) unsetenv(name);
    for (const auto& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  std::map<std::string, std::string> before_;
};

LaunchedRank in(const std::map<std::string, std::string>& variables) {
  const Environment environment(variables);
  return read_launcher();
}

}  // namespace

TEST_CASE("launch: without a launcher's variables the user started this process") {
  const LaunchedRank alone = in({});
  CHECK(alone.launcher == Launcher::None);
  CHECK(alone.size == 1);
}

TEST_CASE("launch: ranks of mpirun, of MPICH's kind, of srun and of torchrun know their place") {
  const LaunchedRank mpi = in({{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  CHECK(mpi.launcher == Launcher::Mpi);
  CHECK((mpi.rank == 3 && mpi.size == 8 && mpi.local_rank == 1 && mpi.local_size == 2));
  const LaunchedRank hydra = in({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}});
  CHECK(hydra.launcher == Launcher::Mpi);
  CHECK((hydra.rank == 1 && hydra.size == 4 && hydra.local_rank == 1 && hydra.local_size == 4));
  const LaunchedRank slurm = in({{"SLURM_STEP_ID", "0"}, {"PMIX_RANK", "5"}, {"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "6"}, {"SLURM_LOCALID", "1"}});
  CHECK(slurm.launcher == Launcher::Slurm);
  CHECK((slurm.rank == 5 && slurm.size == 6 && slurm.local_rank == 1));
  const LaunchedRank torchrun = in({{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}});
  CHECK(torchrun.launcher == Launcher::Torchrun);
  CHECK((torchrun.rank == 2 && torchrun.size == 4 && torchrun.local_rank == 0 && torchrun.local_size == 2));
}

TEST_CASE("launch: a batch script of Slurm, and a stray RANK, are no ranks") {
  CHECK(in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}).launcher == Launcher::None);
  CHECK(in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", "0"}}).launcher == Launcher::None);
  CHECK(in({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).launcher == Launcher::None);
  CHECK(in({{"RANK", "captain"}, {"WORLD_SIZE", "small"}}).launcher == Launcher::None);
  CHECK(in({{"OMPI_COMM_WORLD_RANK", "0"}}).launcher == Launcher::None);
}

TEST_CASE("launch: variables that contradict each other are named") {
  check_mentions(error_text<InputError>([] { in({{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}}); }), "rank 4 of 4");
  check_mentions(error_text<InputError>([] { in({{"PMI_RANK", "one"}, {"PMI_SIZE", "4"}}); }), "PMI_RANK");
  check_mentions(error_text<InputError>([] { in({{"PMI_RANK", "-1"}, {"PMI_SIZE", "4"}}); }), "'-1'");
}

TEST_CASE("launch: where there is no mpirun, the error says what to install") {
  const Environment none(std::map<std::string, std::string>{{"PATH", "/nonexistent"}});
  check_mentions(error_text<EnvError>([] { mpirun_command(2, {"gpuplan"}, "to run"); }), "openmpi-bin");
}
