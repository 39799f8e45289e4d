// Files of each trainer, and the table of targets.
#include "ecosystem/export_targets.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/archive.h"
#include "base/error.h"
#include "base/json_file.h"
#include "base/names.h"
#include "ecosystem/export.h"
#include "ecosystem/meaning.h"
#include "models/framework.h"
#include "models/recipe_names.h"

namespace gpuplan {
namespace {

using Files = std::vector<ExportedFile>;

void add_launcher(Files& files, const ExportJob& job) {
  files.push_back(table_file(job, target_table("accelerate")));
  if (job.is_zero()) files.push_back(table_file(job, target_table("deepspeed")));
}

OrderedJson trl_set(const ExportJob& job) {
  if (!job.method || !job.data.name.empty()) return trl_data(job.data, job.request.model);
  return {{"dataset_name", job.method->set}};
}

ExportedFile sft_file(const ExportJob& job) {
  OrderedJson decided;
  if (job.program.empty() && !job.keeps_data()) decided.update(trl_set(job));
  if (job.setup.engine_place == "colocate") decided["vllm_max_model_length"] = engine_context(job);
  return table_file(job, target_table("trl"), learning_keys(job), decided);
}

void add_trl(Files& files, const ExportJob& job) {
  files.push_back(sft_file(job));
  add_launcher(files, job);
  files.push_back(launch_file(job, target_table("trl").versions, "", accelerate_command(job, trl_program(job))));
  add_server(files, job, "trl vllm-serve", "--tensor-parallel-size", "--data-parallel-size",
             "--gpu-memory-utilization");
}

void add_deepspeed(Files& files, const ExportJob& job) {
  files.push_back(table_file(job, target_table("deepspeed")));
  const std::string machines = job.num_nodes() > 1 ? " --hostfile=\"${HOSTFILE:?a file of lines HOST slots=N}\"" : "";
  files.push_back(launch_file(job, target_table("deepspeed").versions, "",
                              fmt::format("deepspeed{} --num_gpus={}", machines, job.processes_per_node())));
}

/// axolotl and LLaMA-Factory name DeepSpeed's file themselves.
void add_own_engine(Files& files, const ExportJob& job, const char* trainer, const OrderedJson& usual,
                    const OrderedJson& decided) {
  files.push_back(table_file(job, target_table(trainer), usual, decided));
  if (job.is_zero()) files.push_back(table_file(job, target_table("deepspeed")));
}

std::string processes(const ExportJob& job) {
  std::string out =
      fmt::format("accelerate launch --num_processes {} --num_machines {}", *job.setup.num_processes, job.num_nodes());
  if (job.num_nodes() > 1)
    out +=
        " --machine_rank \"${MACHINE_RANK:?the number of this machine, from 0}\""
        " --main_process_ip \"${MAIN_ADDRESS:?the address of machine 0}\" --main_process_port \"${MAIN_PORT:-29500}\"";
  return out;
}

/// Keys of a model with a vision tower: axolotl's docs/multimodal.qmd.
OrderedJson axolotl_images(const ExportJob& job) {
  if (!job.request.model.vision.is_present()) return {};
  return {{"processor_type", "AutoProcessor"}, {"skip_prepare_dataset", true}, {"remove_unused_columns", false}};
}

/// Liger is a plugin there, and each of its kernels has a switch (axolotl's docs/custom_integrations.qmd); its loss of
/// pairs is TRL's (src/axolotl/core/trainers/dpo/__init__.py).
void add_axolotl_liger(OrderedJson& extra, const ExportJob& job) {
  const bool has_layers = job.setup.liger_layers.value_or(*job.setup.liger),
             has_loss = job.setup.liger_loss.value_or(*job.setup.liger);
  const bool is_of_pairs = job.setup.pair_loss.has_value();
  if (has_layers || (has_loss && !is_of_pairs)) extra["plugins"] = {"axolotl.integrations.liger.LigerPlugin"};
  if (has_layers) extra["liger_rms_norm"] = extra["liger_glu_activation"] = true;
  if (has_loss) extra[is_of_pairs ? "dpo_use_liger_kernel" : "liger_fused_linear_cross_entropy"] = true;
}

void add_axolotl(Files& files, const ExportJob& job) {
  OrderedJson usual = axolotl_images(job), decided;
  usual.update(learning_keys(job));
  if (!job.keeps_data()) {
    decided = axolotl_data(job.method ? TrainingData{} : job.data, job.request.model);
    if (job.method) decided["datasets"] = OrderedJson::array({set_of(*job.method, job.data)});
  }
  add_axolotl_liger(decided, job);
  add_own_engine(files, job, "axolotl", usual, decided);
  files.push_back(
      launch_file(job, target_table("axolotl").versions, "", processes(job) + " -m axolotl.cli.train axolotl.yaml"));
}

WhyNot why_not_llama_factory(const ExportJob& job) {
  const ModelSpec& m = job.request.model;
  const Recipe& r = job.request.recipe;
  if (job.data.rows == DataRows::Text)
    return {"LLaMA-Factory's fine-tuning reads messages, or prompt and completion, and no plain text",
            "such rows in --data, or --for trl or axolotl"};
  if (!m.vision.is_present()) return {};
  if (!chat_template_of(m).reads_images)
    return {fmt::format("LLaMA-Factory has no template that reads images for {}", m.name), "--for trl or axolotl"};
  if (r.is_adapter() && r.images.train == TrainVision::Projector)
    return {"LLaMA-Factory puts no adapters on projectors", "--for trl or axolotl"};
  return {};
}

/// fp8 is the launcher's word to a Trainer, whose own bf16 or fp16 would take its place. DeepSpeed's file says bf16, of
/// which the Trainer then must say the same: nothing is left to say fp8 by.
void leave_fp8_to_launcher(Setup& setup, const EstimateRequest& request, const Strategy& strategy) {
  if (!request.recipe.fp8_matmul) return;
  setup.fp8.reset();
  if (strategy.engine != ShardingEngine::Zero) setup.bf16 = setup.fp16 = false;
}

/// TRL 1.7 changed the loss that an unset loss_type means, so that the plain one is stated.
void adapt_to_trl(Setup& setup, const EstimateRequest& request, const Strategy& strategy) {
  leave_fp8_to_launcher(setup, request, strategy);
  if (request.recipe.loss == LossKernel::Plain && request.recipe.objective.method.is_usual()) setup.loss = "plain";
  const std::int64_t context = strategy.mesh.ways(Axis::Cp);
  if (context > 1 && !setup.pad_multiple) setup.pad_multiple = 2 * context;  // two stretches of each rank
}

/// Its fp8 sets the launcher's variable after transformers 5 has read it, so that the launcher says it too. Source:
/// hiyouga/LLaMA-Factory src/llamafactory/train/fp8_utils.py @v0.9.5.
void adapt_to_llama_factory(Setup& setup, const EstimateRequest& request, const Strategy& strategy) {
  const Setup::Flag fp8 = setup.fp8;
  leave_fp8_to_launcher(setup, request, strategy);
  if (strategy.engine != ShardingEngine::Zero) setup.fp8 = fp8;
}

/// Its own launcher starts torchrun; FSDP is accelerate's to start.
void add_llama_factory(Files& files, const ExportJob& job) {
  const bool has_fsdp = is_fsdp(job.strategy.engine);
  const ModelSpec& model = job.request.model;
  const std::string& name = chat_template_of(model).llama_factory;
  OrderedJson usual = learning_keys(job), decided;
  if (job.setup.freezes_layers.value_or(false)) {
    decided["finetuning_type"] = "freeze";
    decided["freeze_trainable_layers"] = std::int64_t(job.setup.freeze_layers.value_or(0));
  }
  usual["template"] = name.empty() ? "default" : name;
  if (!job.keeps_data()) decided.update({{"dataset", "train"}, {"dataset_dir", "."}});
  add_own_engine(files, job, "llama-factory", usual, decided);
  OrderedJson sets =
      job.method ? OrderedJson{{"train", set_of(*job.method, job.data)}} : llama_factory_data(job.data, model);
  sets[kMadeByKey] = json_head_of(job, target_table("llama-factory").versions);  // a set that nobody names
  if (!job.keeps_data()) files.push_back({.name = "dataset_info.json", .content = json_text(sets)});
  if (has_fsdp) files.push_back(table_file(job, target_table("accelerate")));
  std::string exports = has_fsdp || job.is_one_process() ? "" : "export FORCE_TORCHRUN=1\n" + torchrun_exports(job);
  if (!has_fsdp && job.setup.fp8) exports += "export ACCELERATE_MIXED_PRECISION=fp8\n";
  files.push_back(launch_file(job, target_table("llama-factory").versions, exports,
                              has_fsdp ? accelerate_command(job, "-m llamafactory.launcher llamafactory.yaml")
                                       : "llamafactory-cli train llamafactory.yaml"));
}

/// run_clm.py reads a JSON file where it is its only argument, and else flags alone.
void add_transformers(Files& files, const ExportJob& job) {
  files.push_back(table_file(job, target_table("transformers"), learning_keys(job),
                             job.keeps_data() ? OrderedJson{} : run_clm_data(job.data)));
  add_launcher(files, job);
  constexpr const char* kChecks =
      "script=\"${SCRIPT:-run_clm.py}\"\n"
      "if [ $# -gt 0 ]; then\n"
      "  echo \"run_clm.py reads training.json alone: write what you add into that file\" >&2\n"
      "  exit 2\n"
      "fi\n"
      "if [ ! -f \"$script\" ]; then\n"
      "  echo \"$script is not here: take examples/pytorch/language-modeling/run_clm.py of your transformers,\" \\\n"
      "    \"or name it: SCRIPT=PATH $0\" >&2\n"
      "  exit 2\n"
      "fi\n";
  files.push_back(launch_file(job, target_table("transformers").versions, kChecks,
                              accelerate_command(job, "\"$script\" training.json")));
}

WhyNot why_not_transformers(const ExportJob& job) {
  if (!job.is_one_process() || job.strategy.is_one_gpu()) return {};
  return {"run_clm.py loads the model without a device_map: one process would copy it to every GPU", "--for trl",
          "fsdp"};
}

std::string note_of_run_clm(const ExportJob& /*job*/) {
  return "run_clm.py takes its settings from training.json alone: what you would add as flags goes into that file";
}

/// Source: axolotl-ai-cloud/axolotl src/axolotl/utils/schemas/config.py (check_sample_packing_w_sdpa_bf16) @v0.18.0, as
/// at v0.9.0.
std::string note_of_axolotl(const ExportJob& job) {
  const Recipe& recipe = job.request.recipe;
  const auto is_hopper = [](const GpuSpec& gpu) { return gpu.compute_capability == "9.0"; };
  const auto& kinds = job.request.cluster.gpus.kinds();
  const bool is_risky = recipe.packing == Packing::Packed && recipe.attention == AttentionKernel::Sdpa &&
                        job.setup.fp16 != true && recipe.precision != Precision::Fp32;
  if (!is_risky || std::all_of(kinds.begin(), kinds.end(), is_hopper)) return "";
  return "axolotl warns that packed rows under sdpa in bfloat16 may give a loss of 0.0 on cards that are not Hopper: "
         "plan "
         "with --attention flash, or with --packing dynamic";
}

const std::array kTargets{
    Target{"accelerate", nullptr, add_launcher},
    Target{.name = "deepspeed", .trainer = nullptr, .add = add_deepspeed, .needs_zero = true, .has_launcher = false},
    Target{"torchrun", nullptr, add_torchrun},
    Target{.name = "transformers",
           .trainer = "transformers",
           .add = add_transformers,
           .adapt = leave_fp8_to_launcher,
           .why_not = why_not_transformers,
           .note = note_of_run_clm},
    Target{.name = "trl", .trainer = "trl", .add = add_trl, .adapt = adapt_to_trl, .reads_images = true},
    Target{"torch", "torch", add_torch, false, adapt_to_torch, why_not_torch},
    Target{"torchtune", "torchtune", add_torchtune, false, adapt_to_torchtune, why_not_torchtune},
    Target{.name = "axolotl",
           .trainer = "axolotl",
           .add = add_axolotl,
           .has_launcher = false,
           .reads_images = true,
           .note = note_of_axolotl},
    Target{.name = "llama-factory",
           .trainer = "llama-factory",
           .add = add_llama_factory,
           .adapt = adapt_to_llama_factory,
           .why_not = why_not_llama_factory,
           .has_launcher = false,
           .reads_images = true,
           .packs_images = true},
    Target{.name = "ms-swift", .trainer = "ms-swift", .add = add_ms_swift, .has_launcher = false},
    Target{.name = "megatron-swift",
           .trainer = "megatron-swift",
           .add = add_megatron_swift,
           .adapt = adapt_to_megatron_swift,
           .why_not = why_not_megatron_swift,
           .has_launcher = false,
           .divides_layers = true},
    Target{.name = "torchtitan",
           .trainer = "torchtitan",
           .add = add_torchtitan,
           .adapt = adapt_to_torchtitan,
           .why_not = why_not_torchtitan,
           .has_launcher = false,
           .divides_layers = true},
    Target{.name = "verl",
           .trainer = "verl",
           .add = add_verl,
           .adapt = adapt_to_verl,
           .why_not = why_not_verl,
           .has_launcher = false,
           .needs_cluster = true},
    Target{.name = "slurm", .trainer = "trl", .add = nullptr, .job = slurm_file},
    Target{.name = "skypilot", .trainer = "trl", .add = nullptr, .job = skypilot_file},
    Target{.name = "kubeflow", .trainer = "trl", .add = nullptr, .job = kubeflow_file}};

/// The trainer's own target for a plan that came from a file of `carried` (""), else for one of its framework.
const Target& trainer_of(const std::string& framework, std::string_view carried) {
  const auto is_own = [&](const Target& t) {
    return t.trainer && !t.job && target_table(t.trainer).framework == framework &&
           (t.name == framework || t.name == carried);
  };
  const auto found = std::ranges::find_if(kTargets, is_own);
  return found != kTargets.end() ? *found : *std::ranges::find(kTargets, std::string_view("trl"), &Target::name);
}

}  // namespace

const std::vector<Target>& export_target_rows() {
  static const std::vector<Target> kRows(kTargets.begin(), kTargets.end());
  return kRows;
}

void add_torchrun(Files& files, const ExportJob& job) {
  files.push_back(torchrun_file(job));
  if (job.is_zero()) files.push_back(table_file(job, target_table("deepspeed")));
}

Target find_target(std::string_view name, const std::string& framework, std::string_view carried) {
  for (const Target& target : kTargets) {
    if (squash(target.name) != squash(name)) continue;
    if (!target.job) return target;
    Target scheduled = trainer_of(framework, carried);
    scheduled.name = target.name;
    scheduled.job = target.job;
    return scheduled;
  }
  throw InputError("--for", fmt::format("unknown target '{}'", name),
                   did_you_mean(name, export_targets(), fmt::format("known: {}", fmt::join(export_targets(), ", "))));
}

}  // namespace gpuplan
