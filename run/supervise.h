// The parent of ranks on this machine: starts them, passes Ctrl-C on, and stops all when one dies or falls silent.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace gpuplan {

/// Runs this program again as `num_ranks` ranks with the same arguments. Returns their exit code; 3 with a line on `err` when a rank was
/// killed or fell silent. Ctrl-C asks the ranks to save and end after their step; a second one ends them at once.
int supervise_ranks(std::int64_t num_ranks, const std::vector<std::string>& arguments, std::ostream& err);

}  // namespace gpuplan
