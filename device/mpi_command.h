// How CPU ranks are started on this machine: by mpirun, one process per rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/own_folder.h"

namespace gpuplan {

/// Says whether mpirun is on the PATH.
bool has_mpirun();

/// Holds what one mpirun needs while it runs: Open MPI 4 keeps the memory that ranks share, and its own files, in
/// folders of this process. The next run removes those of one that was killed.
class MpiLaunch {
 public:
  /// Throws EnvError when mpirun is not on the PATH, naming what the ranks are for ("to run several CPU ranks"), or
  /// when the folders cannot be made.
  explicit MpiLaunch(const std::string& purpose);
  /// mpirun's command for `num_ranks` of `arguments` (program first), bound to no core.
  std::vector<std::string> command(std::int64_t num_ranks, const std::vector<std::string>& arguments) const;

 private:
  OwnFolder shared_memory_, files_;
};

}  // namespace gpuplan
