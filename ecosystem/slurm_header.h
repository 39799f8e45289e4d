// The GPUs that a Slurm script asks for: its lines that begin with #SBATCH.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace gpuplan {

struct SlurmHeader {
  std::optional<std::int64_t> num_nodes, gpus_per_node, tasks_per_node;
  std::string gpu_type;  // "a100" of --gres=gpu:a100:8; empty: any

  /// The variables that Slurm sets from them.
  std::map<std::string, std::string> variables() const;
};

/// Source: slurm.schedmd.com/sbatch.html, --nodes, --gres, --gpus, --gpus-per-node, --gpus-per-task, --ntasks,
/// --ntasks-per-node. What is no number is left out.
SlurmHeader read_slurm_header(const std::string& script);

}  // namespace gpuplan
