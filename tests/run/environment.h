// The variables of launchers as a test wants them.
#pragma once

#include <cstdlib>
#include <map>
#include <string>

namespace gpuplan::test {

using Variables = std::map<std::string, std::string>;

/// These variables and no others of any launcher, until the end of the scope.
class Environment {
 public:
  explicit Environment(const Variables& wanted) {
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

  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  static constexpr const char* kVariables[] = {"OMPI_COMM_WORLD_RANK",
                                               "OMPI_COMM_WORLD_SIZE",
                                               "OMPI_COMM_WORLD_LOCAL_RANK",
                                               "OMPI_COMM_WORLD_LOCAL_SIZE",
                                               "OMPI_MCA_ess_base_jobid",
                                               "PMI_RANK",
                                               "PMI_SIZE",
                                               "PMI_JOBID",
                                               "HYDRA_JOBID",
                                               "MPI_LOCALRANKID",
                                               "MPI_LOCALNRANKS",
                                               "PMIX_RANK",
                                               "PMIX_NAMESPACE",
                                               "SLURM_STEP_ID",
                                               "SLURM_STEPID",
                                               "SLURM_JOB_ID",
                                               "SLURM_JOBID",
                                               "SLURM_PROCID",
                                               "SLURM_NTASKS",
                                               "SLURM_LOCALID",
                                               "SLURM_NODEID",
                                               "SLURM_NTASKS_PER_NODE",
                                               "SLURM_STEP_NUM_TASKS",
                                               "SLURM_STEP_TASKS_PER_NODE",
                                               "SLURM_STEP_NODELIST",
                                               "SLURM_JOB_NODELIST",
                                               "RANK",
                                               "WORLD_SIZE",
                                               "LOCAL_RANK",
                                               "LOCAL_WORLD_SIZE",
                                               "MASTER_ADDR",
                                               "MASTER_PORT",
                                               "TORCHELASTIC_RUN_ID",
                                               "TORCHELASTIC_RESTART_COUNT",
                                               "GPUPLAN_RANK",
                                               "GPUPLAN_WORLD_SIZE",
                                               "GPUPLAN_PORT",
                                               "GPUPLAN_SOCKET",
                                               "GPUPLAN_JOB",
                                               "GPUPLAN_HEARTBEAT",
                                               "GPUPLAN_NVML",
                                               "GPUPLAN_FAKE_NVML_MACHINE",
                                               "CUDA_DEVICE_ORDER",
                                               "CUDA_VISIBLE_DEVICES",
                                               "PATH"};
  Variables before_;
};

}  // namespace gpuplan::test
