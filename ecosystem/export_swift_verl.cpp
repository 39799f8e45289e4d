// ms-swift's YAML file with `swift sft` or `swift rlhf`, verl's overrides of Hydra, and the server of answers that a
// trainer with GPUs of its own asks.
#include <algorithm>
#include <regex>

#include <fmt/format.h>

#include "base/error.h"
#include "ecosystem/export_parts.h"
#include "planner/rollout_phases.h"

namespace gpuplan {
namespace {

using nlohmann::json;
using Files = std::vector<ExportedFile>;

/// Says whether a text names a variable of the shell, "$HOME/data", and not another key of Hydra's, "${a.b}".
bool names_variable(const std::string& text) {
  static const std::regex variable(R"(\$([A-Za-z_]|\{[A-Za-z_][A-Za-z0-9_]*\}))");
  return std::regex_search(text, variable);
}

std::string override_word(const std::string& text) {
  if (!names_variable(text)) return shell_word(text);
  std::string out = "\"";
  for (const char c : text) out += (c == '"' || c == '`' || c == '\\' ? "\\" : "") + std::string(1, c);
  return out + "\"";
}

/// "a.b.c=value", one line each, as Hydra reads them.
void add_overrides(std::string& out, const OrderedJson& values, const std::string& above) {
  for (const auto& [key, value] : values.items()) {
    const std::string path = above.empty() ? key : above + "." + key;
    if (value.is_object())
      add_overrides(out, value, path);
    else
      out += fmt::format(" \\\n    {}",
                         override_word(path + "=" + (value.is_string() ? value.get<std::string>() : value.dump())));
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
    return {"verl's workers shard by FSDP", "--for trl or ms-swift", "fsdp"};
  if (job.setup.engine_place == "server")
    return {"verl's engines of their own are its recipes' (fully_async_policy, one_step_off_policy)",
            "plan with --rollout-engine vllm:colocate"};
  return {};
}

/// The user's own settings keep the worker that they name; without a name it is the first, which has no offload_policy.
void keep_worker(OrderedJson& values, const ExportJob& job) {
  const OrderedJson::json_pointer strategy("/actor_rollout_ref/actor/strategy"),
      offload("/actor_rollout_ref/actor/fsdp_config/offload_policy");
  const bool is_named = json(job.carried->settings).contains(json::json_pointer(strategy.to_string()));
  const bool needs_newer = values.contains(offload) && values.at(offload) == true;
  if (!is_named && !needs_newer) values[strategy] = "fsdp";
}

void add_verl(Files& files, const ExportJob& job) {
  const OrderedJson decided{{"trainer.n_gpus_per_node", job.processes_per_node()}};
  const OrderedJson usual{
      {"actor_rollout_ref.actor.optim.lr", learning_keys(job).at("learning_rate")},
      {"actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu", job.request.recipe.micro_batch},
      {"actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu", job.request.recipe.micro_batch},
      {"algorithm.use_kl_in_reward", false},
      {"data.filter_overlong_prompts", true},
      {"trainer.critic_warmup", 0},
      {"trainer.logger", "console"},
      {"trainer.project_name", "gpuplan"},
      {"trainer.experiment_name", "plan"},
      {"trainer.save_freq", 20},
      {"trainer.test_freq", 5}};
  OrderedJson values = table_values(job, target_table("verl"), usual, decided);
  std::string command = "python3 -m verl.trainer.main_ppo", exports = facts_of_no_key(job, target_table("verl"));
  if (job.carried) {
    for (const auto& [key, value] : decided.items())  // also where the user's settings say otherwise
      values[OrderedJson::json_pointer("/" + std::regex_replace(key, std::regex("\\."), "/"))] = value;
    if (!job.carries_part) keep_worker(values, job);
  }
  if (!job.keeps_data()) {
    if (values.contains("data"))
      for (const char* key : {"train_files", "val_files"}) values["data"].erase(key);
    command += " \\\n    data.train_files=\"$DATA/train.parquet\" \\\n    data.val_files=\"$DATA/test.parquet\"";
    exports +=
        "DATA=\"${DATA:-$PWD/data}\"\n"
        "if [ ! -f \"$DATA/train.parquet\" ]; then python3 make_data.py \"$DATA\"; fi\n";
  }
  add_overrides(command, values, "");
  if (job.num_nodes() > 1)
    exports += "# The machines are one Ray cluster: start `ray start` on each before, and this on one.\n";
  ExportedFile launch = launch_file(job, target_table("verl").versions, exports, command);
  launch.is_read = true;
  files.push_back(std::move(launch));
  if (!job.keeps_data()) files.push_back(script_file(job, "verl", "make_data.py"));
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
