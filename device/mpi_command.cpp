#include "device/mpi_command.h"

#include <cstdlib>
#include <filesystem>

#include <unistd.h>

#include "base/child_process.h"
#include "base/environment.h"
#include "base/error.h"

namespace gpuplan {
namespace {

std::filesystem::path shared_memory_for(const std::string& purpose) {
  if (!has_mpirun()) throw EnvError("mpirun is not on the PATH: install openmpi-bin " + purpose);
  return shared_memory_folder();
}

}  // namespace

bool has_mpirun() { return !find_program("mpirun").empty(); }

MpiLaunch::MpiLaunch(const std::string& purpose)
    : shared_memory_(shared_memory_for(purpose)),
      files_(temporary_folder()) {}

std::vector<std::string> MpiLaunch::command(std::int64_t num_ranks, const std::vector<std::string>& arguments) const {
  // Open MPI 5 refuses --quiet; this parameter means the same in version 4, and 5 ignores it.
  std::vector<std::string> command{"mpirun", "--mca", "orte_execute_quiet", "1"};
  command.insert(command.end(), {"-n", std::to_string(num_ranks), "--oversubscribe", "--bind-to", "none"});
  // The ranks are on this machine and meet in shared memory: no transport opens a port that others can reach.
  if (!has_variable("OMPI_MCA_btl") && !has_variable("OMPI_MCA_pml"))
    command.insert(command.end(), {"--mca", "pml", "ob1", "--mca", "btl", "^tcp,ofi,usnic,openib"});
  for (const char* transport : {"btl_vader_backing_directory", "btl_sm_backing_directory"})  // of version 4, and 5
    command.insert(command.end(), {"--mca", transport, shared_memory_.path().string()});
  command.insert(command.end(), {"--mca", "orte_tmpdir_base", files_.path().string()});
  if (geteuid() == 0) command.push_back("--allow-run-as-root");  // mpirun refuses otherwise, in containers too
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

}  // namespace gpuplan
