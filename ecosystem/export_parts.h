// Internal to ecosystem/export: a plan on its way into files, and the files of each kind.
#pragma once

#include "ecosystem/emit.h"
#include "ecosystem/exported_file.h"
#include "ecosystem/key_table.h"
#include "planner/estimate.h"

namespace gpuplan {

/// What every file is written from.
struct ExportJob {
  const EstimateRequest& request;
  Strategy strategy;
  Setup setup;
  PlanMark mark;

  std::int64_t num_nodes() const { return request.cluster.num_nodes(); }
  bool is_zero() const { return strategy.engine == ShardingEngine::Zero; }
  /// One process that sees one GPU, or all of a machine (device_map).
  bool is_one_process() const { return setup.num_processes == 1; }
  std::int64_t processes_per_node() const {
    return is_one_process() ? 1 : request.cluster.ranks_per_node(strategy.mesh.world());
  }
};

/// "# Made by gpuplan …" and the versions that `table` describes.
std::string head_of(const ExportJob& job, const std::vector<std::pair<std::string, std::string>>& versions);

/// The file of a format, by its key table.
ExportedFile table_file(const ExportJob& job, const KeyTable& table);

/// launch.sh: checks the versions, then runs `command` with the arguments it was given. `exports` are lines of
/// "export".
ExportedFile launch_file(const ExportJob& job, const std::vector<std::pair<std::string, std::string>>& versions,
                         const std::string& exports, const std::string& command);

/// accelerate launch of a program on this machine, or on each of several.
std::string accelerate_command(const ExportJob& job, const std::string& program);
/// The environment by which accelerate's classes are set up without its launcher, and torchrun.
ExportedFile torchrun_file(const ExportJob& job);

ExportedFile slurm_file(const ExportJob& job);
ExportedFile kubeflow_file(const ExportJob& job);
ExportedFile skypilot_file(const ExportJob& job);
/// SkyPilot's name of the plan's GPU; empty where it has none.
std::string skypilot_name(const GpuSpec& gpu);

}  // namespace gpuplan
