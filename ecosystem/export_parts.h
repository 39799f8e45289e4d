// Internal to ecosystem/export: a plan on its way into files, and the files of each kind.
#pragma once

#include <memory>

#include "ecosystem/emit.h"
#include "ecosystem/key_table.h"
#include "ecosystem/method_files.h"
#include "ecosystem/training_data.h"
#include "planner/estimate.h"
#include "planner/plan/carried.h"

namespace gpuplan {

/// Says why a target cannot train a plan, and what can be done instead; no `why`: it can.
struct WhyNot {
  std::string why, nearest;     // `nearest`: beside a plan with `strategy`
  std::string_view strategy{};  // that the target can train; empty: no other strategy helps
  std::optional<int> fsdp_version{};
  bool trains_all = false;  // the target trains all weights
};

/// Holds what every file is written from.
struct ExportJob {
  const EstimateRequest& request;
  Strategy strategy;
  Setup setup;
  PlanMark mark;
  Versions versions{};                             // that the files are for, where they are given
  std::vector<std::string> program{};              // that a scheduler's job trains with; empty: the target's own
  std::map<std::size_t, std::string> variables{};  // words of `program` that stand in a variable of the environment
  TrainingData data{};
  const char* trainer = nullptr;        // whose files they are, by its table; nullptr: launcher and engine only
  std::string left_to_script{};         // flags of the plan that no file says, where no trainer reads one
  WhyNot versions_cannot{};             // train the plan at all
  const MethodFiles* method = nullptr;  // of the target; nullptr: fine-tuning, or no trainer's files

  std::shared_ptr<const CarriedSettings> carried{};  // that the trainer's file keeps as they were; null: none
  bool carries_part = false;                         // of a file of other words: those that both programs have
  const KeyTable* part_of = nullptr;                 // the table of that file; null: it is of the same words
  std::shared_ptr<const CarriedSettings> left{};     // of another program's file, which stay behind; null: none

  /// Says whether the trainer's files name the data set of the file that was read.
  bool keeps_data() const { return carried && !carries_part && data.name.empty(); }
  std::int64_t num_nodes() const { return request.cluster.num_nodes(); }
  bool is_zero() const { return strategy.engine == ShardingEngine::Zero; }
  /// One process that sees one GPU, or all of a machine (device_map).
  bool is_one_process() const { return setup.num_processes == 1; }
  std::int64_t processes_per_node() const {
    return is_one_process() ? 1 : request.cluster.ranks_per_node(strategy.mesh.world());
  }
};

/// Says why a trainer's files would not train a checkpoint that is quantised: they cannot ask for it to be unpacked.
WhyNot why_not_checkpoint(const ModelSpec& model, const char* trainer);

/// Sets what versions decide: classes that FSDP wraps, modules that ZeRO-3 gathers at once. `record`: of
/// data/frameworks, whose program reads the files; `has_launcher`: accelerate's file or variables are among them. Says
/// why such versions cannot train the plan, where they cannot.
WhyNot add_stack_facts(ExportJob& job, const std::string& record, bool has_launcher);

/// Elements of the largest parameter on one rank of ZeRO-3, which a buffer for NVMe must hold. Source:
/// deepspeedai/DeepSpeed deepspeed/runtime/swap_tensor/partitioned_param_swapper.py (get_buffer) and
/// deepspeed/runtime/zero/partition_parameters.py (_partition_param) @v0.19.5.
std::int64_t largest_partition(const ExportJob& job);

/// Checkpoints by FSDP itself, where no trainer's file says it and FSDP's are right.
void let_engine_checkpoint(Setup& setup, const Recipe& recipe);
/// Flags of the plan that a script of one's own must obey, as no file says them. `says_fp8`: the files do.
std::string script_settings(const ExportJob& job, bool says_fp8);

/// "# Made by gpuplan …" and the versions that `table` describes.
std::string head_of(const ExportJob& job, const Versions& versions);
/// The same as a value of a JSON file.
std::string json_head_of(const ExportJob& job, const Versions& versions);

/// The file of a format, by its key table.
/// Keys that no fact states, with dots below mappings: `usual` where no file said others, `decided` by the plan.
ExportedFile table_file(const ExportJob& job, const KeyTable& table, const OrderedJson& usual = {},
                        const OrderedJson& decided = {});

/// The table of a format that is written.
const KeyTable& target_table(const char* name);

/// The same keys as values, those below mappings inside them.
OrderedJson table_values(const ExportJob& job, const KeyTable& table, const OrderedJson& usual = {},
                         const OrderedJson& decided = {});

/// Writes facts of generation for which `table` has no row as a comment that estimate --from reads; empty: none.
std::string facts_of_no_key(const ExportJob& job, const KeyTable& table);

/// TRL's program and its file, as accelerate starts it.
std::string trl_program(const ExportJob& job);

/// Keys that a trainer's run needs beside the plan and its data.
OrderedJson learning_keys(const ExportJob& job);

/// launch.sh: checks the versions, then runs `command` with the arguments it was given. `exports` are lines of
/// "export".
ExportedFile launch_file(const ExportJob& job, const Versions& versions, const std::string& exports,
                         const std::string& command);

/// accelerate launch of a program on this machine, or on each of several.
std::string accelerate_command(const ExportJob& job, const std::string& program);
/// torchrun with the plan's processes, or python3 where there is one; the program follows.
std::string torchrun_command(const ExportJob& job);
/// The environment by which accelerate's classes are set up without its launcher.
std::vector<std::pair<std::string, std::string>> torchrun_variables(const ExportJob& job);
/// Gives the variables that make accelerate use DeepSpeed with the configuration in `file`; none of other plans.
/// Source: huggingface/accelerate src/accelerate/accelerator.py and utils/dataclasses.py (DeepSpeedPlugin) @v1.14.0.
std::vector<std::pair<std::string, std::string>> zero_variables(const ExportJob& job, const std::string& file);
/// Gives what torchrun of these versions needs to run at all.
std::vector<std::string> torchrun_output_flags(const Versions& versions);
/// A shipped program behind the line that names its plan. `table`: whose versions it is for.
ExportedFile script_file(const ExportJob& job, const char* table, const char* name);
/// The environment by which accelerate's classes are set up without its launcher, and torchrun.
ExportedFile torchrun_file(const ExportJob& job);

/// The script of plain PyTorch, its settings, and launch.sh.
void add_torch(std::vector<ExportedFile>& files, const ExportJob& job);
/// `adapt_to_torch` puts the settings in the script's own words; `why_not_torch` says why it cannot train a plan.
void adapt_to_torch(Setup& setup, const EstimateRequest& request, const Strategy& strategy);
WhyNot why_not_torch(const ExportJob& job);
/// ms-swift's file, and verl's command line; the server of answers beside a trainer.
void add_ms_swift(std::vector<ExportedFile>& files, const ExportJob& job);
void add_verl(std::vector<ExportedFile>& files, const ExportJob& job);
void add_server(std::vector<ExportedFile>& files, const ExportJob& job, const char* command, const char* tp,
                const char* copies, const char* share);
WhyNot why_not_verl(const ExportJob& job);
void adapt_to_verl(Setup& setup, const EstimateRequest& request, const Strategy& strategy);
/// Tokens of the longest sequence that an engine beside the trainer is started for.
std::int64_t engine_context(const ExportJob& job);
/// Variables by which swift and llamafactory-cli start torchrun, this machine's among them.
std::string torchrun_exports(const ExportJob& job);
/// Files of trainers that divide layers among ranks.
void add_megatron_swift(std::vector<ExportedFile>& files, const ExportJob& job);
void adapt_to_megatron_swift(Setup& setup, const EstimateRequest& request, const Strategy& strategy);
WhyNot why_not_megatron_swift(const ExportJob& job);
void add_torchtitan(std::vector<ExportedFile>& files, const ExportJob& job);
void adapt_to_torchtitan(Setup& setup, const EstimateRequest& request, const Strategy& strategy);
WhyNot why_not_torchtitan(const ExportJob& job);
/// torchtune's recipe.
void add_torchtune(std::vector<ExportedFile>& files, const ExportJob& job);
void adapt_to_torchtune(Setup& setup, const EstimateRequest& request, const Strategy& strategy);
WhyNot why_not_torchtune(const ExportJob& job);

/// A scheduler's job beside `files`: it starts their launch.sh on each machine, or the job's program in its place.
ExportedFile slurm_file(const ExportJob& job, const std::vector<ExportedFile>& files);
ExportedFile kubeflow_file(const ExportJob& job, const std::vector<ExportedFile>& files);
ExportedFile skypilot_file(const ExportJob& job, const std::vector<ExportedFile>& files);
/// SkyPilot's name of the plan's GPU; empty where it has none.
std::string skypilot_name(const GpuSpec& gpu);

}  // namespace gpuplan
