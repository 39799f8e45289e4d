// The parent of ranks on this machine: starts them, passes Ctrl-C on, and stops all when one dies or falls silent.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace gpuplan {

/// Runs this program again as `num_ranks` ranks on CPUs with the same arguments, by mpirun. Returns their exit code; 3
/// with a line on `err` when a rank was killed or fell silent. Ctrl-C asks the ranks to save and end after their step;
/// a second one ends them at once.
int supervise_ranks(std::int64_t num_ranks, const std::vector<std::string>& arguments, std::ostream& err);

/// The same for ranks on GPUs, a child process each: `command` (program first) with their rank, number and meeting
/// place in the environment (run/launch.h, run/meeting_place.h). The first that does not end well decides, and the
/// others are killed.
int supervise_gpu_ranks(std::int64_t num_ranks, const std::vector<std::string>& command, std::ostream& err);

}  // namespace gpuplan
