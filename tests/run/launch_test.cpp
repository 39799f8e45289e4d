#include "run/launch.h"

#include <sstream>

#include <doctest/doctest.h>

#include "base/error.h"
#include "device/mpi_command.h"
#include "run/environment.h"
#include "run/files/error_text.h"
#include "run/supervise.h"

using namespace gpuplan;
using test::check_mentions;
using test::Environment;
using test::error_text;
using test::Variables;

namespace {

LaunchedRank in(const Variables& variables) {
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
  const LaunchedRank mpi = in({{"OMPI_COMM_WORLD_RANK", "3"},
                               {"OMPI_COMM_WORLD_SIZE", "8"},
                               {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  CHECK(mpi.launcher == Launcher::Mpi);
  CHECK((mpi.rank == 3 && mpi.size == 8 && mpi.local_rank == 1 && mpi.local_size == 2));
  const LaunchedRank hydra = in({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}});
  CHECK(hydra.launcher == Launcher::Mpi);
  CHECK((hydra.rank == 1 && hydra.size == 4 && hydra.local_rank == 1 && hydra.local_size == 4));
  const LaunchedRank slurm = in({{"SLURM_STEP_ID", "0"},
                                 {"PMIX_RANK", "5"},
                                 {"SLURM_PROCID", "5"},
                                 {"SLURM_NTASKS", "6"},
                                 {"SLURM_LOCALID", "1"}});
  CHECK(slurm.launcher == Launcher::Slurm);
  CHECK((slurm.rank == 5 && slurm.size == 6 && slurm.local_rank == 1));
  const LaunchedRank torchrun =
      in({{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}});
  CHECK(torchrun.launcher == Launcher::Torchrun);
  CHECK((torchrun.rank == 2 && torchrun.size == 4 && torchrun.local_rank == 0 && torchrun.local_size == 2));
}

TEST_CASE("launch: ranks that gpuplan started know their place, whatever other launchers left") {
  const LaunchedRank own = in({{"GPUPLAN_RANK", "2"},
                               {"GPUPLAN_WORLD_SIZE", "4"},
                               {"OMPI_COMM_WORLD_RANK", "0"},
                               {"OMPI_COMM_WORLD_SIZE", "2"}});
  CHECK(own.launcher == Launcher::Gpuplan);
  CHECK((own.rank == 2 && own.size == 4 && own.local_rank == 2 && own.local_size == 4 && !own.has_mpi));
}

TEST_CASE(
    "launch: tasks of srun without PMIx are ranks by the number of their step's tasks, on machines of different "
    "sizes") {
  const Variables step{{"SLURM_STEP_ID", "3"},
                       {"SLURM_PROCID", "17"},
                       {"SLURM_NTASKS", "64"},
                       {"SLURM_STEP_NUM_TASKS", "20"},
                       {"SLURM_LOCALID", "1"},
                       {"SLURM_NODEID", "2"},
                       {"SLURM_STEP_TASKS_PER_NODE", "8(x2),4"}};
  const LaunchedRank slurm = in(step);
  CHECK(slurm.launcher == Launcher::Slurm);
  CHECK((slurm.rank == 17 && slurm.size == 20 && slurm.local_rank == 1 && slurm.local_size == 4));
  CHECK(!slurm.has_mpi);
  auto with_pmix = step;
  with_pmix["PMIX_RANK"] = "17";
  CHECK(in(with_pmix).has_mpi);
  auto with_pmi2 = step;  // srun --mpi=pmi2: what PMI says is the same, and less
  with_pmi2["PMI_RANK"] = "17", with_pmi2["PMI_SIZE"] = "20";
  const LaunchedRank pmi2 = in(with_pmi2);
  CHECK((pmi2.launcher == Launcher::Slurm && pmi2.local_rank == 1 && pmi2.local_size == 4 && pmi2.has_mpi));
}

TEST_CASE("launch: MPICH's ranks under Slurm take their place on the machine from it") {
  const LaunchedRank rank = in({{"PMI_RANK", "9"},
                                {"PMI_SIZE", "16"},
                                {"SLURM_LOCALID", "1"},
                                {"SLURM_NTASKS_PER_NODE", "8"},
                                {"SLURM_STEP_ID", "0"},
                                {"SLURM_STEP_NUM_TASKS", "2"},
                                {"SLURM_PROCID", "1"}});
  CHECK(rank.launcher == Launcher::Mpi);
  CHECK((rank.rank == 9 && rank.size == 16 && rank.local_rank == 1 && rank.local_size == 8 && rank.has_mpi));
}

TEST_CASE("launch: a batch script of Slurm, and a stray RANK, are no ranks") {
  CHECK(in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}).launcher == Launcher::None);
  CHECK(in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", "0"}}).launcher == Launcher::None);
  // the shell of salloc is a step of one task in a job of four
  CHECK(
      in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", "4294967290"}, {"SLURM_STEP_NUM_TASKS", "1"}})
          .launcher == Launcher::None);
  CHECK(in({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).launcher == Launcher::None);
  CHECK(in({{"RANK", "captain"}, {"WORLD_SIZE", "small"}}).launcher == Launcher::None);
  CHECK(in({{"OMPI_COMM_WORLD_RANK", "0"}}).launcher == Launcher::None);
}

TEST_CASE("launch: variables that contradict each other are named") {
  check_mentions(error_text<InputError>([] {
                   in({{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
                 }),
                 "rank 4 of 4");
  check_mentions(error_text<InputError>([] { in({{"PMI_RANK", "one"}, {"PMI_SIZE", "4"}}); }), "PMI_RANK");
  check_mentions(error_text<InputError>([] { in({{"PMI_RANK", "-1"}, {"PMI_SIZE", "4"}}); }), "'-1'");
}

TEST_CASE("launch: where there is no mpirun, the error says what to install") {
  const Environment none(Variables{{"PATH", "/nonexistent"}});
  check_mentions(error_text<EnvError>([] { const MpiLaunch mpi("to run"); }), "openmpi-bin");
}

TEST_CASE("launch: srun's ranks on CPUs need PMIx, and torchrun's are those of the plan, on one machine") {
  const RankLaunch plan{.num_ranks = 2, .gpus = {}, .arguments = {"run"}};
  std::ostringstream out, err;
  const auto refusal = [&](const LaunchedRank& launched) {
    return error_text<InputError>([&] { static_cast<void>(launch_ranks(plan, launched, out, err)); });
  };
  check_mentions(refusal({.launcher = Launcher::Slurm, .size = 2, .has_mpi = false}), "srun --mpi=pmix");
  check_mentions(refusal({.launcher = Launcher::Torchrun, .size = 4, .local_size = 4}),
                 "started 4 processes, 4 of them here, and the plan has 2 CPU ranks");
  check_mentions(refusal({.launcher = Launcher::Torchrun, .size = 2, .local_size = 1}), "1 of them here");
  // these are the plan's: ranks themselves, and one that leaves it to the first
  CHECK(!launch_ranks(plan, {.launcher = Launcher::Slurm, .size = 2, .has_mpi = true}, out, err));
  CHECK(launch_ranks(plan, {.launcher = Launcher::Torchrun, .rank = 1, .size = 2, .local_size = 2}, out, err) == 0);
}
