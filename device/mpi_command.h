// How CPU ranks are started on this machine: by mpirun, one process per rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpuplan {

/// Whether mpirun is on the PATH.
bool has_mpirun();

/// mpirun's command for `num_ranks` of `arguments` (program first), bound to no core. Throws EnvError, naming what the
/// ranks are for
/// ("to run several CPU ranks"), when it is not on the PATH.
std::vector<std::string> mpirun_command(std::int64_t num_ranks, const std::vector<std::string>& arguments,
                                        const std::string& purpose);

}  // namespace gpuplan
