// ms-swift's YAML file with `swift sft` or `swift rlhf`, verl's overrides of Hydra, and the server of answers that a
// trainer with GPUs of its own asks.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "ecosystem/export_parts.h"
#include "planner/rollout_phases.h"

namespace gpuplan {
namespace {

using Files = std::vector<ExportedFile>;

/// "a.b.c=value", one line each, as Hydra reads them.
void add_overrides(std::string& out, const OrderedJson& values, const std::string& above) {
  for (const auto& [key, value] : values.items()) {
    const std::string path = above.empty() ? key : above + "." + key;
    if (value.is_object())
      add_overrides(out, value, path);
    else
      out += fmt::format(" \\\n    {}",
                         shell_word(path + "=" + (value.is_string() ? value.get<std::string>() : value.dump())));
  }
}

}  // namespace

/// Source: modelscope/ms-swift swift/cli/main.py @3602360a; hiyouga/LLaMA-Factory src/llamafactory/launcher.py @v0.9.5
/// (without MASTER_PORT each machine finds a free port of its own).
std::string torchrun_exports(const ExportJob& job) {
  if (job.is_one_process()) return "";
  std::string out = fmt::format("export NPROC_PER_NODE={}\n", job.processes_per_node());
  if (job.num_nodes() > 1)
    out += fmt::format(
        "export NNODES={} NODE_RANK=\"${{NODE_RANK:?the number of this machine, from 0}}\" "
        "MASTER_ADDR=\"${{MASTER_ADDR:?the address of machine 0}}\" MASTER_PORT=\"${{MASTER_PORT:-29500}}\"\n",
        job.num_nodes());
  return out;
}

void add_ms_swift(Files& files, const ExportJob& job) {
  OrderedJson usual = learning_keys(job), decided;
  usual.update({{"use_hf", true}, {"split_dataset_ratio", 0}, {"output_dir", "out"}, {"report_to", "none"}});
  if (!job.keeps_data()) decided["use_hf"] = !job.data.name.empty();  // its examples' sets are ModelScope's
  if (job.method && !job.keeps_data()) decided["dataset"] = OrderedJson::array({set_of(*job.method, job.data)});
  if (job.setup.engine_offloads.value_or(false)) decided["offload_optimizer"] = true;
  if (job.setup.engine_place == "colocate") decided["vllm_max_model_len"] = engine_context(job);
  files.push_back(table_file(job, target_table("ms-swift"), usual, decided));
  if (job.is_zero()) files.push_back(table_file(job, target_table("deepspeed")));
  files.push_back(launch_file(job, target_table("ms-swift").versions, torchrun_exports(job),
                              fmt::format("swift {} swift.yaml", job.method ? job.method->starts : "sft")));
  add_server(files, job, "swift rollout", "--vllm_tensor_parallel_size", "--vllm_data_parallel_size",
             "--vllm_gpu_memory_utilization");
}

/// Sequences of prompt and answer, as far as the model reads them: engines refuse to start for longer ones.
std::int64_t engine_context(const ExportJob& job) {
  const JobRollout rollout = job_rollout(Job(job.request, job.strategy));
  const std::int64_t most = context_of(job.request.model, *rollout.setup.engine);
  return most > 0 ? std::min(job.request.recipe.seq_len, most) : job.request.recipe.seq_len;
}

void adapt_to_verl(Setup& setup, const EstimateRequest& /*request*/, const Strategy& strategy) {
  if (!strategy.is_one_gpu()) return;
  setup.distributed = "fsdp";  // over one rank it shards nothing
  setup.fsdp_reshard = "yes";
}

WhyNot why_not_verl(const ExportJob& job) {
  if (!is_fsdp(job.strategy.engine) && !job.strategy.is_one_gpu())
    return {"verl's workers shard by FSDP", "plan with --strategy fsdp, or --for trl or ms-swift"};
  if (job.setup.engine_place == "server")
    return {"verl's engines of their own are its recipes' (fully_async_policy, one_step_off_policy)",
            "plan with --rollout-engine vllm:colocate"};
  return {};
}

void add_verl(Files& files, const ExportJob& job) {
  const std::string folder = "\"$PWD\"/data";
  OrderedJson extra{
      {"actor_rollout_ref.actor.optim.lr", learning_keys(job).at("learning_rate")},
      {"actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu", job.request.recipe.micro_batch},
      {"actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu", job.request.recipe.micro_batch},
      {"actor_rollout_ref.actor.fsdp_config.optimizer_offload", job.setup.engine_offloads.value_or(false)},
      {"trainer.n_gpus_per_node", job.processes_per_node()},
      {"algorithm.use_kl_in_reward", false},
      {"data.filter_overlong_prompts", true},
      {"trainer.critic_warmup", 0},
      {"trainer.logger", "console"},
      {"trainer.project_name", "gpuplan"},
      {"trainer.experiment_name", "plan"},
      {"trainer.save_freq", 20},
      {"trainer.test_freq", 5}};
  std::string overrides;
  add_overrides(overrides, table_values(job, target_table("verl"), extra), "");
  const std::string command = fmt::format(
      "python3 -m verl.trainer.main_ppo \\\n    data.train_files=\"$DATA/train.parquet\" \\\n    "
      "data.val_files=\"$DATA/test.parquet\"{}",
      overrides);
  const std::string exports =
      facts_of_no_key(job, target_table("verl")) +
      "DATA=\"${DATA:-$PWD/data}\"\n"
      "if [ ! -f \"$DATA/train.parquet\" ]; then python3 make_data.py \"$DATA\"; fi\n" +
      (job.num_nodes() > 1 ? "# The machines are one Ray cluster: start `ray start` on each before, and this on one.\n"
                           : "");
  ExportedFile launch = launch_file(job, target_table("verl").versions, exports, command);
  launch.is_read = true;
  files.push_back(std::move(launch));
  files.push_back(script_file(job, "verl", "make_data.py"));
}

/// The first GPUs of a machine train and the next ones answer; on machines of its own the server has the first.
void add_server(Files& files, const ExportJob& job, const char* command, const char* tp, const char* copies,
                const char* share) {
  if (job.setup.engine_place != "server") return;
  const JobRollout rollout = job_rollout(Job(job.request, job.strategy));
  const std::int64_t gpus = rollout.setup.num_gpus, world = job.strategy.mesh.world();
  const std::int64_t first = whole_cluster(job.request).num_nodes() == 1 ? world : 0;
  std::string visible;
  for (std::int64_t i = first; i < first + gpus; ++i) visible += fmt::format("{}{}", visible.empty() ? "" : ",", i);
  files.push_back(
      {.name = "serve.sh",
       .content = fmt::format("#!/bin/sh\n{}# Start it before launch.sh{}.\nset -eu\nexport "
                              "CUDA_VISIBLE_DEVICES=\"${{CUDA_VISIBLE_DEVICES:-{}}}\"\nexec {} --model {} "
                              "{} {} {} {} {} {:g} \"$@\"\n",
                              head_of(job, {}), first == 0 ? ", on another machine than those that train" : "", visible,
                              command, shell_word(*job.setup.model), tp, rollout.setup.tp, copies,
                              gpus / rollout.setup.tp, share, rollout.setup.utilisation),
       .is_program = true});
}

}  // namespace gpuplan
