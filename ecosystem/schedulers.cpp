// Jobs for schedulers: each starts accelerate once per machine, with TRL's SFT program; Slurm's starts torchrun for the
// script of plain PyTorch.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/files.h"
#include "base/surroundings.h"
#include "base/unit_text.h"
#include "base/value_tree.h"
#include "base/yaml_file.h"
#include "ecosystem/export_parts.h"
#include "planner/changes.h"

namespace gpuplan {
namespace {

/// Gives what trains, with its arguments as shell words; those that are hidden stand in variables.
std::string program_of(const ExportJob& job, const std::string& otherwise) {
  if (job.program.empty()) return otherwise;
  std::string out;
  for (std::size_t i = 0; i < job.program.size(); ++i) {
    const auto hidden = job.variables.find(i);
    out += i == 0 ? "" : " ";
    out += hidden == job.variables.end() ? shell_word(job.program[i]) : fmt::format("\"${}\"", hidden->second);
  }
  return out;
}

/// One process of accelerate on this machine; the variables are expanded there.
std::string launch_of(const ExportJob& job, const std::string& rank, const std::string& head, const std::string& port) {
  std::string out = "accelerate launch --config_file accelerate.yaml";
  if (job.num_nodes() > 1 && !job.is_one_process())
    out += fmt::format(
        " --num_machines {} --num_processes {} --machine_rank {} --main_process_ip {} --main_process_port {}",
        job.num_nodes(), *job.setup.num_processes, rank, head, port);
  return out + " " + program_of(job, trl_program(job));
}

/// torchrun on this machine, or python3 for one process.
std::string torchrun_of(const ExportJob& job) {
  const std::string program = program_of(job, "train_torch.py torch.json");
  if (job.is_one_process()) return "python3 " + program;
  std::string out = job.num_nodes() == 1
                        ? "torchrun --standalone"
                        : fmt::format(
                              "torchrun --nnodes={} --node_rank=\"$SLURM_NODEID\" --master_addr=\"$HEAD\" "
                              "--master_port=\"$PORT\"",
                              job.num_nodes());
  out += fmt::format(" --nproc_per_node={}", job.processes_per_node());
  for (const std::string& flag : torchrun_output_flags(job.versions)) out += " " + flag;
  return out + " " + program;
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
  container["args"] = {launch_of(job, "${PET_NODE_RANK:-$RANK}", "\"$MASTER_ADDR\"", "\"$MASTER_PORT\"")};
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

ExportedFile slurm_file(const ExportJob& job, bool has_torchrun) {
  std::string out = "#!/bin/bash\n";
  const bool has_gpus = !job.request.cluster.gpus.front().is_cpu;
  out += fmt::format("#SBATCH --job-name=gpuplan\n#SBATCH --nodes={}\n#SBATCH --ntasks-per-node=1\n#SBATCH --{}={}\n",
                     machines(job), has_gpus ? "gpus-per-node" : "cpus-per-task", gpus_per_machine(job));
  const TimeLimit limit = time_limit(job);
  out += fmt::format("#SBATCH --time={}:00:00\n#SBATCH --output=%x-%j.out\n", limit.hours);
  out += head_of(job, {{"slurm", "22.05 or later"}}) + limit.comment;
  out += fmt::format(
      "# Submit it in this folder: its files stand beside it.\n# One task per machine; {} starts a process per {}. Add "
      "--account{} as your\n# cluster wants them{}.\n"
      "set -euo pipefail\n",
      has_torchrun ? "torchrun" : "accelerate", has_gpus ? "GPU" : "CPU rank",
      has_gpus ? ", --partition and --cpus-per-task" : " and --partition",
      !job.program.empty() ? ""
      : has_torchrun       ? ", and --model, --data and --output to train_torch.py"
                           : "");
  out += "HEAD=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\ntest -n \"$HEAD\"\n";
  out += "PORT=$((20000 + SLURM_JOB_ID % 20000))\nexport HEAD PORT\n";
  out += "if test -n \"${SLURM_CPUS_PER_TASK:-}\"; then export SRUN_CPUS_PER_TASK=\"$SLURM_CPUS_PER_TASK\"; fi\n";
  out += fmt::format(
      "srun --kill-on-bad-exit=1 bash -c {}\n",
      shell_word(has_torchrun ? torchrun_of(job) : launch_of(job, "\"$SLURM_NODEID\"", "\"$HEAD\"", "\"$PORT\"")));
  return {.name = "job.sbatch", .content = out, .is_program = true, .is_private = !job.program.empty()};
}

ExportedFile skypilot_file(const ExportJob& job) {
  OrderedJson task;
  task["name"] = "gpuplan";
  task["workdir"] = ".";
  task["num_nodes"] = machines(job);
  task["resources"]["accelerators"] =
      fmt::format("{}:{}", skypilot_name(job.request.cluster.gpus.front()), gpus_per_machine(job));
  task["secrets"]["HF_TOKEN"] = nullptr;
  task["setup"] = "pip install 'accelerate>=1.10' 'trl>=0.20' 'peft>=0.17' deepspeed bitsandbytes";
  for (const std::string& package : job.method ? job.method->needs : std::vector<std::string>{})
    task["setup"] = task["setup"].get<std::string>() + " " + package;
  const std::string head = "HEAD=$(echo \"$SKYPILOT_NODE_IPS\" | head -n1); ";
  task["run"] = (machines(job) > 1 ? head : "") + launch_of(job, "\"$SKYPILOT_NODE_RANK\"", "\"$HEAD\"", "8008");
  // Source: docs.skypilot.co/en/latest/reference/yaml-spec.html and running-jobs/environment-variables.html, 2026-11.
  constexpr const char* kHow =
      "# sky launch task.yaml --secret HF_TOKEN. SkyPilot takes the cheapest place with these GPUs; --infra aws, "
      "gcp/us-central1 or\n"
      "# k8s/CONTEXT, or infra: under resources, names another.\n";
  return {.name = "task.yaml", .content = head_of(job, {{"skypilot", "0.10 or later"}}) + kHow + yaml_text(task)};
}

ExportedFile kubeflow_file(const ExportJob& job) {
  OrderedJson file;
  file["apiVersion"] = "kubeflow.org/v1";
  file["kind"] = "PyTorchJob";
  file["metadata"]["name"] = "gpuplan";
  OrderedJson& spec = file["spec"];
  spec["nprocPerNode"] = std::to_string(job.processes_per_node());
  spec["runPolicy"] = {{"cleanPodPolicy", "None"}, {"backoffLimit", 0}};
  spec["pytorchReplicaSpecs"]["Master"] = replicas(job, 1);
  if (machines(job) > 1) spec["pytorchReplicaSpecs"]["Worker"] = replicas(job, machines(job) - 1);
  return {.name = "job.yaml",
          .content = head_of(job, {{"training-operator", "1.7 to 1.9"}}) +
                     fmt::format("# Put your image for YOUR-IMAGE; it must hold accelerate.yaml and {} in its working "
                                 "folder.\n",
                                 job.method ? job.method->file : "sft.yaml") +
                     yaml_text(file)};
}

}  // namespace gpuplan
