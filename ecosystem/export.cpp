#include "ecosystem/export.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>

#include <fmt/format.h>

#include "base/archive.h"
#include "base/error.h"
#include "base/json_file.h"
#include "base/names.h"
#include "base/unit_text.h"
#include "ecosystem/config_reader.h"
#include "ecosystem/export_parts.h"
#include "ecosystem/field_flags.h"
#include "ecosystem/meaning.h"
#include "ecosystem/question_fields.h"
#include "ecosystem/rules.h"
#include "ecosystem/trained_parameters.h"
#include "models/expert_layout.h"
#include "models/fake_quant_table.h"
#include "models/framework.h"
#include "models/recipe_names.h"
#include "models/trained_names.h"
#include "planner/plan/plan_parts.h"

namespace gpuplan {
namespace {

using nlohmann::json;
using Files = std::vector<ExportedFile>;

constexpr const char* kSftModule = "-m trl.scripts.sft --config sft.yaml";

const KeyTable& table(const char* name) {
  const KeyTable* found = find_key_table(name);
  GPUPLAN_CHECK(found, "a target without a key table");
  return *found;
}

void add_launcher(Files& files, const ExportJob& job) {
  files.push_back(table_file(job, table("accelerate")));
  if (job.is_zero()) files.push_back(table_file(job, table("deepspeed")));
}

ExportedFile sft_file(const ExportJob& job) {
  OrderedJson extra = learning_keys(job);
  if (job.program.empty()) extra.update(trl_data(job.data, job.request.model));
  return table_file(job, table("trl"), extra);
}

void add_trl(Files& files, const ExportJob& job) {
  files.push_back(sft_file(job));
  add_launcher(files, job);
  files.push_back(launch_file(job, table("trl").versions, "", accelerate_command(job, kSftModule)));
}

void add_deepspeed(Files& files, const ExportJob& job) {
  files.push_back(table_file(job, table("deepspeed")));
  const std::string machines = job.num_nodes() > 1 ? " --hostfile=\"${HOSTFILE:?a file of lines HOST slots=N}\"" : "";
  files.push_back(launch_file(job, table("deepspeed").versions, "",
                              fmt::format("deepspeed{} --num_gpus={}", machines, job.processes_per_node())));
}

void add_torchrun(Files& files, const ExportJob& job) {
  files.push_back(torchrun_file(job));
  if (job.is_zero()) files.push_back(table_file(job, table("deepspeed")));
}

/// TRL under a scheduler.
void add_scheduled(Files& files, const ExportJob& job, ExportedFile file) {
  files.push_back(std::move(file));
  files.push_back(sft_file(job));
  add_launcher(files, job);
}

/// axolotl and LLaMA-Factory name DeepSpeed's file themselves.
void add_own_engine(Files& files, const ExportJob& job, const char* trainer, const OrderedJson& extra) {
  files.push_back(table_file(job, table(trainer), extra));
  if (job.is_zero()) files.push_back(table_file(job, table("deepspeed")));
}

std::string processes(const ExportJob& job) {
  std::string out =
      fmt::format("accelerate launch --num_processes {} --num_machines {}", *job.setup.num_processes, job.num_nodes());
  if (job.num_nodes() > 1)
    out +=
        " --machine_rank \"${MACHINE_RANK:?the number of this machine, from 0}\""
        " --main_process_ip \"${MAIN_ADDRESS:?the address of machine 0}\" --main_process_port 29500";
  return out;
}

/// Keys of a model with a vision tower: axolotl's docs/multimodal.qmd.
OrderedJson axolotl_images(const ExportJob& job) {
  if (!job.request.model.vision.is_present()) return {};
  return {{"processor_type", "AutoProcessor"}, {"skip_prepare_dataset", true}, {"remove_unused_columns", false}};
}

/// Liger is a plugin there, and each of its kernels has a switch (axolotl's docs/custom_integrations.qmd).
void add_axolotl_liger(OrderedJson& extra, const ExportJob& job) {
  const bool has_layers = job.setup.liger_layers.value_or(*job.setup.liger),
             has_loss = job.setup.liger_loss.value_or(*job.setup.liger);
  if (has_layers || has_loss) extra["plugins"] = {"axolotl.integrations.liger.LigerPlugin"};
  if (has_layers) extra["liger_rms_norm"] = extra["liger_glu_activation"] = true;
  if (has_loss) extra["liger_fused_linear_cross_entropy"] = true;
}

void add_axolotl(Files& files, const ExportJob& job) {
  OrderedJson extra = axolotl_images(job);
  extra.update(learning_keys(job));
  extra.update(axolotl_data(job.data, job.request.model));
  add_axolotl_liger(extra, job);
  add_own_engine(files, job, "axolotl", extra);
  files.push_back(
      launch_file(job, table("axolotl").versions, "", processes(job) + " -m axolotl.cli.train axolotl.yaml"));
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
  if (request.recipe.loss == LossKernel::Plain) setup.loss = "plain";
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
  OrderedJson extra = learning_keys(job);
  if (job.setup.freezes_layers.value_or(false)) {
    extra["finetuning_type"] = "freeze";
    extra["freeze_trainable_layers"] = std::int64_t(job.setup.freeze_layers.value_or(0));
  }
  extra.update({{"template", name.empty() ? "default" : name}, {"dataset", "train"}, {"dataset_dir", "."}});
  add_own_engine(files, job, "llama-factory", extra);
  OrderedJson sets = llama_factory_data(job.data, model);
  sets[kMadeByKey] = json_head_of(job, table("llama-factory").versions);  // a set that nobody names
  files.push_back({.name = "dataset_info.json", .content = json_text(sets)});
  if (has_fsdp) files.push_back(table_file(job, table("accelerate")));
  std::string exports = has_fsdp || job.is_one_process()
                            ? ""
                            : fmt::format("export FORCE_TORCHRUN=1 NNODES={} NPROC_PER_NODE={}\n", job.num_nodes(),
                                          job.processes_per_node());
  if (!has_fsdp && job.setup.fp8) exports += "export ACCELERATE_MIXED_PRECISION=fp8\n";
  files.push_back(launch_file(job, table("llama-factory").versions, exports,
                              has_fsdp ? accelerate_command(job, "-m llamafactory.launcher llamafactory.yaml")
                                       : "llamafactory-cli train llamafactory.yaml"));
}

/// run_clm.py reads a JSON file where it is its only argument, and else flags alone.
void add_transformers(Files& files, const ExportJob& job) {
  OrderedJson extra = learning_keys(job);
  extra.update(run_clm_data(job.data));
  files.push_back(table_file(job, table("transformers"), extra));
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
  files.push_back(
      launch_file(job, table("transformers").versions, kChecks, accelerate_command(job, "\"$script\" training.json")));
}

WhyNot why_not_transformers(const ExportJob& job) {
  if (!job.is_one_process() || job.strategy.is_one_gpu()) return {};
  return {"run_clm.py loads the model without a device_map: one process would copy it to every GPU",
          "plan with --strategy fsdp, or --for trl"};
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

struct Target {
  std::string_view name;
  const char* trainer;  // its table; nullptr: the files hold launcher and engine only
  void (*add)(Files& files, const ExportJob& job);
  bool needs_zero = false;
  void (*adapt)(Setup& setup, const EstimateRequest& request, const Strategy& strategy) = nullptr;
  WhyNot (*why_not)(const ExportJob& job) = nullptr;
  bool has_launcher = true;                             // accelerate's file, or its variables, are written
  bool reads_images = false;                            // its trainer loads the images of a row
  bool packs_images = false;                            // several rows with images in one sequence
  std::string (*note)(const ExportJob& job) = nullptr;  // what to know before the files are used; "": nothing
};

/// Holds what --for slurm means for a plan of plain PyTorch; not spelt by users.
constexpr std::string_view kSlurmTorch = "slurm with torchrun";

constexpr std::array kTargets{
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
    Target{.name = "slurm",
           .trainer = "trl",
           .add = [](Files& files, const ExportJob& job) { add_scheduled(files, job, slurm_file(job, false)); },
           .adapt = adapt_to_trl,
           .reads_images = true},
    Target{kSlurmTorch, "torch", add_torch_job, false, adapt_to_torch, why_not_torch},
    Target{.name = "skypilot",
           .trainer = "trl",
           .add = [](Files& files, const ExportJob& job) { add_scheduled(files, job, skypilot_file(job)); },
           .adapt = adapt_to_trl,
           .reads_images = true},
    Target{.name = "kubeflow",
           .trainer = "trl",
           .add = [](Files& files, const ExportJob& job) { add_scheduled(files, job, kubeflow_file(job)); },
           .adapt = adapt_to_trl,
           .reads_images = true}};

const Target& find_target(std::string_view name, const std::string& framework) {
  if (squash(name) == "slurm" && framework == "torch") name = kSlurmTorch;
  for (const Target& target : kTargets)
    if (squash(target.name) == squash(name)) return target;
  throw InputError("--for", fmt::format("unknown target '{}'", name),
                   did_you_mean(name, export_targets(), fmt::format("known: {}", fmt::join(export_targets(), ", "))));
}

/// Two spellings of what alone is trained that mean the same parameters are one.
void keep_spelling(EstimateRequest& read, const EstimateRequest& planned) {
  if (planned.recipe.trained.empty() || read.recipe.trained.empty()) return;
  const auto names = [&](const std::vector<std::string>& trained) {
    return names_of_meant(list_weights(planned.model), [&](const std::string& name, const WeightTensor&) {
      return std::ranges::any_of(trained, [&](const std::string& own) { return names_parameter(own, name); });
    });
  };
  if (names(read.recipe.trained) == names(planned.recipe.trained)) read.recipe.trained = planned.recipe.trained;
}

/// Gives what the files say when they are read again, on the plan's machines.
EstimateRequest read_back(const ExportJob& job, const Target& target, const Files& files) {
  std::vector<ConfigFile> configs;
  for (const ExportedFile& file : files) {
    const auto tables = key_tables();
    if (std::any_of(tables.begin(), tables.end(), [&](const KeyTable& t) { return t.file == file.name; }))
      configs.push_back({file.name, file.content});
  }
  if (!target.trainer &&
      std::none_of(configs.begin(), configs.end(), [](const ConfigFile& f) { return f.name == "accelerate.yaml"; })) {
    const ExportedFile launcher = table_file(job, table("accelerate"));  // what the script's variables say
    configs.push_back({launcher.name, launcher.content});
  }
  ConfigReading reading = read_configs(configs, [](const std::string&, const std::string&) { return std::nullopt; });
  EstimateRequest& r = reading.request;
  r.model = job.request.model;
  r.cluster = job.request.cluster;
  if (job.strategy.is_one_gpu()) {
    r.cluster.gpus.keep(1);
    r.cluster.gpus_per_node = 1;
  }
  settle_stack(r);
  ImageSpec images = job.request.recipe.images;  // of the data, but for what is trained
  images.train = r.recipe.images.train;
  r.recipe.images = images;
  settle_vision(reading, r);
  std::vector<std::string> notes;
  settle_trained(reading, r, notes);
  keep_spelling(r, job.request);
  settle_strategy(reading, r, notes);
  return r;
}

/// A field in which two objects differ: its path and both values.
struct Difference {
  std::string path;
  json planned, read;
};

void add_differences(std::vector<Difference>& out, const json& planned, const json& read,
                     const std::string& above = "") {
  for (const auto& [key, value] : planned.items()) {
    const std::string path = above.empty() ? key : above + "." + key;
    const json other = read.contains(key) ? read[key] : json();
    if (value.is_object() && other.is_object())
      add_differences(out, value, other, path);
    else if (value != other)
      out.push_back({path, value, other});
  }
}

std::string plain(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

/// Names the flags of a plan that the files can say whole.
std::string nearest_to(const std::vector<Difference>& all, const EstimateRequest& read, const Strategy& strategy,
                       const ExportJob& job, const Target& target) {
  if (all.front().path == "lora.base_dtype" && all.front().read.is_null())
    return fmt::format("plan with --framework {}, which loads the base as its files do", target.trainer);
  if (job.request.recipe.is_adapter() && !read.recipe.is_adapter()) return "--for trl, axolotl or llama-factory";
  std::vector<std::string> fields;
  if (strategy.name != job.strategy.name) fields.emplace_back("name");
  for (const Difference& d : all) fields.push_back(d.path);
  const std::string words = plan_with(fields, read, strategy);
  return words.empty() ? "export for another program" : words;
}

/// Says why the files would train something else; fills answer.refusal.
void compare(ExportAnswer& answer, const ExportJob& job, const EstimateRequest& read, const Target& target) {
  const Strategy strategy = make_strategy(read.strategy, read.cluster, options_for(read));
  std::vector<Difference> found;
  add_differences(found, strategy_fields(job.strategy), strategy_fields(strategy));
  const bool is_other_strategy = !found.empty() && strategy.name != job.strategy.name;
  if (target.trainer) {
    const auto method = [](const EstimateRequest& r) { return json{{"method", to_string(r.recipe.method)}}; };
    const std::size_t num_before = found.size();
    add_differences(found, method(job.request), method(read));
    if (found.size() == num_before)
      add_differences(found, recipe_fields(job.request.recipe, job.strategy), recipe_fields(read.recipe, job.strategy));
  }
  if (found.empty()) return;
  answer.nearest = nearest_to(found, read, strategy, job, target);
  if (is_other_strategy) {
    answer.refusal = fmt::format("the files of {} would train with {}, and the plan is {}", target.name, strategy.name,
                                 job.strategy.name);
    return;
  }
  const Difference& first = found.front();
  answer.refusal = fmt::format("the files of {} cannot say {} {}: they would train with {}", target.name, first.path,
                               plain(first.planned), first.read.is_null() ? "the usual one" : plain(first.read));
}

Bytes process_bytes(const EstimateRequest& request, const Strategy& strategy) {
  StrategyEstimate e;
  e.strategy = strategy;
  StepProgram program;
  const Job job(request, strategy);
  evaluate(e, job, program);
  return e.tiers.process;
}

void note_other_framework(ExportAnswer& answer, const ExportJob& job, const EstimateRequest& read) {
  if (read.recipe.framework == job.request.recipe.framework) return;
  EstimateRequest there = job.request;
  there.recipe.framework = read.recipe.framework;
  answer.notes.push_back(fmt::format("planned as {} trains: {} per GPU; as {} trains: {}",
                                     job.request.recipe.framework->name,
                                     format_bytes(process_bytes(job.request, job.strategy)),
                                     read.recipe.framework->name, format_bytes(process_bytes(there, job.strategy))));
}

void refuse(ExportAnswer& answer, std::string why, std::string nearest) {
  answer.refusal = std::move(why);
  answer.nearest = std::move(nearest);
}

/// PEFT refuses adapters on the output projection of Mamba layers, or leaves them idle: a fused kernel takes its
/// weight, and those of other projections of the first Mamba (huggingface/peft #2562). "all-linear" would reach it.
bool reaches_mamba_output(const EstimateRequest& r) {
  return r.recipe.is_adapter() && r.model.num_layers_with([](Mixer m) { return has_mamba1(m) || has_mamba2(m); }) > 0 &&
         r.recipe.lora.targets == std::vector<std::string>{"all-linear"};
}

/// Says why a target's files would not train a model with towers; empty where they do.
std::string why_not_images(const Target& target, const ModelSpec& model) {
  if (!target.trainer || target.reads_images || !model.vision.is_present()) return "";
  return fmt::format("{} has a vision tower, and {} trains on text alone", model.name,
                     target.name == "transformers" ? "run_clm.py" : fmt::format("what --for {} writes", target.name));
}

/// TRL stops ("Packing is not supported for vision-language models"), axolotl's docs/multimodal.qmd says "not yet
/// supported with multimodal".
bool packs_images(const ExportJob& job, const Target& target) {
  return target.trainer && !target.packs_images && job.request.model.vision.is_present() &&
         job.request.recipe.packing == Packing::Packed;
}

/// Refuses what cannot be written, before anything is.
void check(ExportAnswer& answer, const ExportJob& job, const Target& target) {
  const EstimateRequest& r = job.request;
  const bool is_uniform = job.strategy.is_one_gpu() || r.cluster.num_gpus() % r.cluster.gpus_per_node == 0;
  if (const Rule* rule = broken_rule(job.setup))
    return refuse(answer, fmt::format("{} [{}]", rule->why, rule->id), std::string(rule->nearest));
  if (const std::string why = why_not_applicable(job.strategy, r.cluster, r.recipe, r.model); !why.empty())
    return refuse(answer, fmt::format("{}: {}", job.strategy.name, why), "plan again with another --strategy");
  const Mesh& mesh = job.strategy.mesh;
  if (mesh.ways(Axis::Tp) > 1 || (mesh.num_stages() > 1 && !job.strategy.takes_turns()))
    return refuse(answer, "tensor and pipeline parallelism cannot be exported yet", "plan without --tp and --pp");
  if (target.trainer && reaches_mamba_output(r))
    return refuse(answer,
                  "all-linear would put adapters on out_proj of the Mamba layers, which PEFT refuses or leaves idle",
                  fmt::format("plan with --lora targets={}", fmt::join(linear_modules(list_weights(r.model)), "+")));
  if (packs_images(job, target))
    return refuse(answer, fmt::format("{} does not pack rows with images", target.trainer),
                  "plan with --packing padded or dynamic");
  const auto old = std::find_if_not(r.cluster.gpus.kinds().begin(), r.cluster.gpus.kinds().end(), multiplies_bf16);
  if (job.setup.bf16 == true && old != r.cluster.gpus.kinds().end())
    return refuse(answer, fmt::format("{} has no bf16 [R14]", old->name), "plan with --precision fp16-mixed");
  if (const WhyNot no = target.why_not ? target.why_not(job) : WhyNot{}; !no.why.empty())
    return refuse(answer, no.why, no.nearest);
  if (!job.versions_cannot.why.empty()) return refuse(answer, job.versions_cannot.why, job.versions_cannot.nearest);
  if (target.needs_zero && !job.is_zero())
    return refuse(answer, fmt::format("DeepSpeed's file says stages of ZeRO, and the plan is {}", job.strategy.name),
                  "plan with --strategy zero1, zero2 or zero3, or --for accelerate");
  if (target.name == "skypilot" && skypilot_name(r.cluster.gpus.front()).empty())
    return refuse(answer, fmt::format("SkyPilot has no name for {}", r.cluster.gpus.front().name), "--for torchrun");
  if (!is_uniform || r.cluster.is_mixed())
    if (target.name.starts_with("slurm") || target.name == "skypilot" || target.name == "kubeflow")
      refuse(answer, "machines that differ cannot be asked for in one job", "--for torchrun or accelerate");
}

/// The note of settings that no file of the launcher says.
std::string left_to_script(const ExportJob& job) {
  return fmt::format("your script must do what these files do not say: {}{}", job.left_to_script,
                     job.setup.fsdp_checkpointing == true
                         ? "; it must not checkpoint itself, as accelerate does (fsdp_activation_checkpointing)"
                         : "");
}

ExportJob make_job(const EstimateRequest& request, const Target& target, const PlanMark& mark, const Versions& versions,
                   const ExportPlaces& places) {
  const Strategy strategy = make_strategy(request.strategy, request.cluster, options_for(request));
  ExportJob job{.request = request,
                .strategy = strategy,
                .setup = setup_of(request, strategy),
                .mark = mark,
                .versions = versions,
                .program = places.program,
                .variables = places.variables,
                .data = places.data};
  if (job.setup.deepspeed_file && !places.folder.empty())
    job.setup.deepspeed_file = (std::filesystem::path(places.folder) / *job.setup.deepspeed_file).string();
  if (target.adapt) target.adapt(job.setup, request, strategy);
  const KeyTable& reader = table(target.trainer ? target.trainer : "accelerate");
  job.versions_cannot = add_stack_facts(job, reader.framework, target.has_launcher);
  if (target.trainer) return job;
  if (!places.has_script) let_engine_checkpoint(job.setup, request.recipe);
  job.left_to_script = script_settings(job, !job.is_zero() || target.add == add_torchrun);
  return job;
}

/// FSDP's CPUOffload moves every sharded parameter, adapters too, and the optimizer steps where they are.
bool takes_optimizer_along(const EstimateRequest& r) {
  const Offload& offload = r.recipe.offload;
  const Strategy strategy = make_strategy(r.strategy, r.cluster, options_for(r));
  return is_fsdp(strategy.engine) && offload.params == OffloadTarget::Cpu && offload.optimizer == OffloadTarget::None;
}

}  // namespace

std::vector<std::string> export_targets() {
  std::vector<std::string> names;
  for (const Target& target : kTargets)
    if (target.name != kSlurmTorch) names.emplace_back(target.name);
  return names;
}

std::string export_hint(const std::string& plan_file, const Recipe& recipe) {
  // of the trainers' files axolotl's alone say which fake quantisers there are, and which parameters alone are trained,
  // whatever they are; LLaMA-Factory's say some, which is known once they are written
  const bool can_say = recipe.framework->name == "axolotl" && !recipe.trained_in_turn &&
                       (recipe.trained.empty() || !recipe.is_adapter()) &&
                       (recipe.qat == Qat::None || !fake_quant_row(recipe.qat).dtypes.empty());
  const bool needs_script = (!recipe.trained.empty() || recipe.qat != Qat::None) && !can_say;
  const auto is_own = [&](const Target& t) { return !needs_script && t.trainer && t.name == recipe.framework->name; };
  const auto found = std::find_if(kTargets.begin(), kTargets.end(), is_own);
  return fmt::format("gpuplan export {} --for {} writes files that train it", shell_word(plan_file),
                     found == kTargets.end() ? "accelerate" : found->name);
}

ExportAnswer export_plan(const EstimateRequest& planned, std::string_view name, const PlanMark& mark,
                         const Versions& versions, const ExportPlaces& places) {
  const Target& target = find_target(name, planned.recipe.framework->name);
  ExportAnswer answer;
  if (const std::string why = why_not_images(target, planned.model); !why.empty()) {
    refuse(answer, why, "--for trl or axolotl, or accelerate with a script of your own");
    return answer;
  }
  if (const WhyNot no = why_not_checkpoint(planned.model, target.trainer); !no.why.empty()) {
    refuse(answer, no.why, no.nearest);
    return answer;
  }
  EstimateRequest request = planned;
  settle_stack(request);
  if (takes_optimizer_along(planned)) {
    request.recipe.offload.optimizer = OffloadTarget::Cpu;
    answer.notes.push_back(
        "FSDP takes what is trained and its optimizer to the host with the weights: its step is taken there");
  }
  ExportJob job = make_job(request, target, mark, versions, places);
  if (const VersionRule* rule = broken_version_rule(job.setup, versions)) {
    request.options.fsdp_version = 1;
    ExportJob older = make_job(request, target, mark, versions, places);
    const bool has_fsdp2 = job.strategy.engine == ShardingEngine::Fsdp2;
    const VersionRule* const in_the_way = has_fsdp2 ? broken_version_rule(older.setup, versions) : rule;
    if (in_the_way) {
      refuse(answer, fmt::format("{} [{}]", in_the_way->reason, in_the_way->id), in_the_way->nearest);
      return answer;
    }
    answer.notes.push_back(fmt::format("{} [{}]: written for FSDP1, {} per GPU instead of {}", rule->reason, rule->id,
                                       format_bytes(process_bytes(request, older.strategy)),
                                       format_bytes(process_bytes(planned, job.strategy))));
    job.strategy = older.strategy;
    job.setup = older.setup;
    job.left_to_script = older.left_to_script;
  }
  check(answer, job, target);
  if (answer.is_refused()) return answer;
  target.add(answer.files, job);
  try {
    const EstimateRequest read = read_back(job, target, answer.files);
    compare(answer, job, read, target);
    if (target.trainer && request.model.vision.is_present())
      answer.notes.push_back(
          fmt::format("rows of more than {} tokens, those of their images included, must not be in "
                      "the data: trainers cut them or stop",
                      format_grouped(request.recipe.seq_len)));
    if (!answer.is_refused() && target.trainer) note_other_framework(answer, job, read);
    if (const std::string note = target.note ? target.note(job) : ""; !answer.is_refused() && !note.empty())
      answer.notes.push_back(note);
    const bool names_data = target.trainer && std::string_view(target.trainer) != "torch" && job.program.empty();
    if (!answer.is_refused() && names_data == job.data.name.empty())
      answer.notes.emplace_back(
          names_data ? "the files name a small public data set: --data FILE or --data NAME on the Hub names yours"
                     : "--data is not in these files: name it to the script");
    if (target.trainer && job.request.recipe.objective.answers() > 1)
      answer.notes.emplace_back("the data set in the files has one answer per row: put one of pairs in its place");
    if (!target.trainer) answer.notes.push_back(left_to_script(job));
  } catch (const InputError& error) { refuse(answer, error.problem(), error.hint()); }
  if (answer.is_refused()) answer.files.clear();
  return answer;
}

}  // namespace gpuplan
