// Jobs for schedulers: each starts the launch.sh of a trainer's files once per machine, or in its place a launcher with
// a program of the user's.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/files.h"
#include "base/surroundings.h"
#include "base/unit_text.h"
#include "base/value_tree.h"
#include "base/yaml_file.h"
#include "ecosystem/export_parts.h"
#include "ecosystem/packages.h"
#include "planner/changes.h"

namespace gpuplan {
namespace {

/// Gives what trains in the place of launch.sh, with its arguments as shell words; those that are hidden stand in
/// variables.
std::string program_of(const ExportJob& job) {
  std::string out;
  for (std::size_t i = 0; i < job.program.size(); ++i) {
    const auto hidden = job.variables.find(i);
    out += i == 0 ? "" : " ";
    out += hidden == job.variables.end() ? shell_word(job.program[i]) : fmt::format("\"${}\"", hidden->second);
  }
  return out;
}

/// Shell words of a scheduler for the number of a machine, and for the address and the port of the first one.
struct Place {
  const char *rank, *head, *port;
};

/// One process of accelerate on this machine; the variables are expanded there.
std::string accelerate_of(const ExportJob& job, const Place& place) {
  std::string out = "accelerate launch --config_file accelerate.yaml";
  if (job.num_nodes() > 1 && !job.is_one_process())
    out += fmt::format(
        " --num_machines {} --num_processes {} --machine_rank {} --main_process_ip {} --main_process_port {}",
        job.num_nodes(), *job.setup.num_processes, place.rank, place.head, place.port);
  return out + " " + program_of(job);
}

/// torchrun on this machine, or python3 for one process.
std::string torchrun_of(const ExportJob& job, const Place& place) {
  if (job.is_one_process()) return "python3 " + program_of(job);
  std::string out = job.num_nodes() == 1
                        ? "torchrun --standalone"
                        : fmt::format("torchrun --nnodes={} --node_rank={} --master_addr={} --master_port={}",
                                      job.num_nodes(), place.rank, place.head, place.port);
  out += fmt::format(" --nproc_per_node={}", job.processes_per_node());
  for (const std::string& flag : torchrun_output_flags(job.versions)) out += " " + flag;
  return out + " " + program_of(job);
}

bool is_torch(const ExportJob& job) { return std::string_view(job.trainer) == "torch"; }

/// A machine runs launch.sh, which reads its place from variables, as each launcher spells them.
std::string start_of(const ExportJob& job, const Place& place) {
  if (!job.program.empty()) return is_torch(job) ? torchrun_of(job, place) : accelerate_of(job, place);
  if (job.num_nodes() == 1 || job.is_one_process()) return "sh launch.sh";
  return fmt::format(
      "export MACHINE_RANK={0} NODE_RANK={0} MAIN_ADDRESS={1} MASTER_ADDR={1} MAIN_PORT={2} MASTER_PORT={2}; "
      "sh launch.sh",
      place.rank, place.head, place.port);
}

std::vector<std::string> installs(const ExportJob& job) {
  return pip_commands(job.setup, target_table(job.trainer), job.versions,
                      job.method ? job.method->needs : std::vector<std::string>{});
}

std::int64_t gpus_per_machine(const ExportJob& job) {
  return job.strategy.is_one_gpu() ? 1 : job.request.cluster.ranks_per_node(job.request.cluster.num_gpus());
}

std::int64_t machines(const ExportJob& job) { return job.strategy.is_one_gpu() ? 1 : job.num_nodes(); }

OrderedJson pod(const ExportJob& job) {
  OrderedJson container;
  container["name"] = "pytorch";  // the operator looks for this name
  container["image"] = "YOUR-IMAGE";
  container["command"] = {"bash", "-c"};
  container["args"] = {start_of(job, {"\"${PET_NODE_RANK:-$RANK}\"", "\"$MASTER_ADDR\"", "\"$MASTER_PORT\""})};
  container["resources"]["limits"]["nvidia.com/gpu"] = gpus_per_machine(job);
  container["volumeMounts"] = OrderedJson::array({{{"name", "shm"}, {"mountPath", "/dev/shm"}}});
  OrderedJson spec;
  spec["containers"] = OrderedJson::array({container});
  spec["volumes"] = OrderedJson::array({{{"name", "shm"}, {"emptyDir", {{"medium", "Memory"}}}}});
  return spec;
}

OrderedJson replicas(const ExportJob& job, std::int64_t count) {
  OrderedJson out;
  out["replicas"] = count;
  out["restartPolicy"] = "Never";
  out["template"]["spec"] = pod(job);
  return out;
}

/// Holds what a job asks a scheduler for, and the comment that says why.
struct TimeLimit {
  std::int64_t hours = 24;
  std::string comment{};
};

/// Twice what the plan's rows take at most by the stated range, and half an hour to load and save.
TimeLimit time_limit(const ExportJob& job) {
  const Dataset& data = job.request.dataset;
  EstimateRequest asked = job.request;
  asked.strategy = job.strategy.name;
  const std::vector<StrategyEstimate> all = estimate_strategies({asked, profile_of(asked)});
  const auto planned = std::ranges::find_if(all, [](const StrategyEstimate& e) { return e.total.has_value(); });
  if (planned == all.end()) return {};
  constexpr double kSafety = 2, kAround = 1800, kHour = 3600;
  const Seconds most = *planned->total * (planned->time_range ? planned->time_range->high : 1);
  const bool is_assumed = data.rows == Dataset{}.rows && data.tokens_per_row == 0;
  return {
      .hours = std::int64_t(std::ceil((kSafety * most.value + kAround) / kHour)),
      .comment = fmt::format("# --time: {} {}rows take {} by the plan, at most {}; twice that and half an hour.{}\n",
                             format_grouped(data.rows), is_assumed ? "assumed " : "", format_duration(*planned->total),
                             format_duration(most), is_assumed ? " Set it for your data." : "")};
}

nlohmann::json read_skypilot_names() {
  const std::string where = (data_dir() / "ecosystem" / "skypilot_names.yaml").string();
  return read_yaml11(where)->root.at("names");
}

}  // namespace

std::string skypilot_name(const GpuSpec& gpu) { return read_once<read_skypilot_names>().value(gpu.id, ""); }

ExportedFile slurm_file(const ExportJob& job, const std::vector<ExportedFile>& /*files*/) {
  std::string out = "#!/bin/bash\n";
  const bool has_gpus = !job.request.cluster.gpus.front().is_cpu, has_program = !job.program.empty();
  out += fmt::format("#SBATCH --job-name=gpuplan\n#SBATCH --nodes={}\n#SBATCH --ntasks-per-node=1\n#SBATCH --{}={}\n",
                     machines(job), has_gpus ? "gpus-per-node" : "cpus-per-task", gpus_per_machine(job));
  const TimeLimit limit = time_limit(job);
  out += fmt::format("#SBATCH --time={}:00:00\n#SBATCH --output=%x-%j.out\n", limit.hours);
  out += head_of(job, {{"slurm", "22.05 or later"}}) + limit.comment;
  out += fmt::format(
      "# Submit it in this folder: its files stand beside it.\n# One task per machine; {} starts a process per {}. Add "
      "--account{} as your\n# cluster wants them{}.\n",
      !has_program    ? "launch.sh"
      : is_torch(job) ? "torchrun"
                      : "accelerate",
      has_gpus ? "GPU" : "CPU rank", has_gpus ? ", --partition and --cpus-per-task" : " and --partition",
      !has_program && is_torch(job) ? ", and --model, --data and --output to launch.sh" : "");
  if (!has_program)
    for (const std::string& command : installs(job)) out += fmt::format("# Needs: {}\n", command);
  out += "set -euo pipefail\n";
  out += "HEAD=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\ntest -n \"$HEAD\"\n";
  out += "PORT=$((20000 + SLURM_JOB_ID % 20000))\nexport HEAD PORT\n";
  out += "if test -n \"${SLURM_CPUS_PER_TASK:-}\"; then export SRUN_CPUS_PER_TASK=\"$SLURM_CPUS_PER_TASK\"; fi\n";
  out += fmt::format("srun --kill-on-bad-exit=1 bash -c {}\n",
                     shell_word(start_of(job, {"\"$SLURM_NODEID\"", "\"$HEAD\"", "\"$PORT\""})));
  return {.name = "job.sbatch", .content = out, .is_program = true, .is_private = has_program};
}

ExportedFile skypilot_file(const ExportJob& job, const std::vector<ExportedFile>& /*files*/) {
  OrderedJson task;
  task["name"] = "gpuplan";
  task["workdir"] = ".";
  task["num_nodes"] = machines(job);
  task["resources"]["accelerators"] =
      fmt::format("{}:{}", skypilot_name(job.request.cluster.gpus.front()), gpus_per_machine(job));
  task["secrets"]["HF_TOKEN"] = nullptr;
  task["setup"] = fmt::format("{}", fmt::join(installs(job), " && "));
  const std::string head = "HEAD=$(echo \"$SKYPILOT_NODE_IPS\" | head -n1); ";
  task["run"] = (machines(job) > 1 ? head : "") + start_of(job, {"\"$SKYPILOT_NODE_RANK\"", "\"$HEAD\"", "8008"});
  // Source: docs.skypilot.co/en/latest/reference/yaml-spec.html and running-jobs/environment-variables.html, 2026-11.
  constexpr const char* kHow =
      "# sky launch task.yaml --secret HF_TOKEN. SkyPilot takes the cheapest place with these GPUs; --infra aws, "
      "gcp/us-central1 or\n"
      "# k8s/CONTEXT, or infra: under resources, names another.\n";
  return {.name = "task.yaml", .content = head_of(job, {{"skypilot", "0.10 or later"}}) + kHow + yaml_text(task)};
}

ExportedFile kubeflow_file(const ExportJob& job, const std::vector<ExportedFile>& files) {
  OrderedJson file;
  file["apiVersion"] = "kubeflow.org/v1";
  file["kind"] = "PyTorchJob";
  file["metadata"]["name"] = "gpuplan";
  OrderedJson& spec = file["spec"];
  spec["nprocPerNode"] = std::to_string(job.processes_per_node());
  spec["runPolicy"] = {{"cleanPodPolicy", "None"}, {"backoffLimit", 0}};
  spec["pytorchReplicaSpecs"]["Master"] = replicas(job, 1);
  if (machines(job) > 1) spec["pytorchReplicaSpecs"]["Worker"] = replicas(job, machines(job) - 1);
  std::vector<std::string> names;
  for (const ExportedFile& other : files) names.push_back(other.name);
  std::string how =
      fmt::format("# Put your image for YOUR-IMAGE; it must hold {} in its working folder.\n", fmt::join(names, ", "));
  for (const std::string& command : installs(job)) how += fmt::format("# Needs: {}\n", command);
  return {.name = "job.yaml", .content = head_of(job, {{"training-operator", "1.7 to 1.9"}}) + how + yaml_text(file)};
}

}  // namespace gpuplan
