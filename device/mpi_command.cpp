#include "device/mpi_command.h"

#include <cstdlib>
#include <filesystem>

#include <unistd.h>

#include "base/error.h"
#include "base/names.h"

namespace gpuplan {

bool has_mpirun() {
  const char* const path = std::getenv("PATH");
  for (const std::string& dir : split(path ? path : "", ':'))
    if (access((std::filesystem::path(dir) / "mpirun").c_str(), X_OK) == 0) return true;
  return false;
}

std::vector<std::string> mpirun_command(std::int64_t num_ranks, const std::vector<std::string>& arguments,
                                        const std::string& purpose) {
  if (!has_mpirun()) throw EnvError("mpirun is not on the PATH: install openmpi-bin " + purpose);
  std::vector<std::string> command{"mpirun",          "--quiet",   "-n",  std::to_string(num_ranks),
                                   "--oversubscribe", "--bind-to", "none"};
  // The ranks are on this machine and meet in shared memory: no transport opens a port that others can reach.
  if (!std::getenv("OMPI_MCA_btl") && !std::getenv("OMPI_MCA_pml"))
    command.insert(command.end(), {"--mca", "pml", "ob1", "--mca", "btl", "^tcp,ofi,usnic,openib"});
  if (geteuid() == 0) command.push_back("--allow-run-as-root");  // mpirun refuses otherwise, in containers too
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

}  // namespace gpuplan
