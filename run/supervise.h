// The parent of ranks on this machine: starts them, passes Ctrl-C on, and stops all when one dies or falls silent.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "run/gpu_check.h"
#include "run/launch.h"

namespace gpuplan {

struct RankLaunch {
  std::int64_t num_ranks = 1;
  std::vector<GpuWanted> gpus;         // by rank; empty: ranks on CPUs
  std::vector<std::string> arguments;  // of this program, for every rank
  bool reads_input = false;            // the plan comes from standard input, which only one process can read
};

/// Starts the plan's ranks where no launcher has, and waits for them. Returns their exit code; nullopt: this process is
/// a rank itself. Throws InputError where a launcher's processes cannot be the plan's ranks.
std::optional<int> launch_ranks(const RankLaunch& launch, const LaunchedRank& launched, std::ostream& out,
                                std::ostream& err);

/// Runs `command` (program first) as `num_ranks` ranks on CPUs, by mpirun; what they answer goes to `out`. Returns
/// their exit code; 3 with a line on `err` when a rank was killed or fell silent. Ctrl-C asks the ranks to save and end
/// after their step; a second one ends them at once.
int supervise_ranks(std::int64_t num_ranks, const std::vector<std::string>& command, std::ostream& out,
                    std::ostream& err);

/// The same for ranks on GPUs, a child process each, with their rank, number and rendezvous address in the environment.
/// When one does not end well the others are killed, and the rank that failed first decides the exit code.
int supervise_gpu_ranks(std::int64_t num_ranks, const std::vector<std::string>& command, std::ostream& err);

}  // namespace gpuplan
