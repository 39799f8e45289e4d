#include "ecosystem/export.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/archive.h"
#include "base/error.h"
#include "base/json_file.h"
#include "base/names.h"
#include "base/unit_text.h"
#include "ecosystem/carried_keys.h"
#include "ecosystem/config_reader.h"
#include "ecosystem/export_parts.h"
#include "ecosystem/export_targets.h"
#include "ecosystem/field_flags.h"
#include "ecosystem/meaning.h"
#include "ecosystem/question_fields.h"
#include "ecosystem/rules.h"
#include "ecosystem/trained_parameters.h"
#include "models/expert_layout.h"
#include "models/fake_quant_table.h"
#include "models/framework.h"
#include "models/recipe_names.h"
#include "models/rollout.h"
#include "models/trained_names.h"
#include "models/training_method.h"
#include "planner/engine_gpus.h"
#include "planner/plan/plan_parts.h"
#include "planner/rollout_phases.h"

namespace gpuplan {
namespace {

using nlohmann::json;
using Files = std::vector<ExportedFile>;

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
  for (const ExportedFile& file : files)
    if (file.is_read) configs.push_back({file.name, file.content});
  if (!target.trainer &&
      std::none_of(configs.begin(), configs.end(), [](const ConfigFile& f) { return f.name == "accelerate.yaml"; })) {
    const ExportedFile launcher = table_file(job, target_table("accelerate"));  // what the script's variables say
    configs.push_back({launcher.name, launcher.content});
  }
  // the user's file may leave the method to the program that is started: launch.sh names it
  const bool is_named_by_start =
      job.carried && !job.carries_part && job.method && !job.method->starts.empty() && job.method->says.empty();
  ConfigReading reading = read_configs(
      configs, [](const std::string&, const std::string&) { return std::nullopt; }, {},
      is_named_by_start ? job.request.recipe.objective.method->name : "");
  EstimateRequest& r = reading.request;
  if (is_named_by_start && !reading.setup.objective) r.recipe.objective.method = job.request.recipe.objective.method;
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
  r.recipe.routing.imbalance = job.request.recipe.routing.imbalance;  // of the data, which no file states
  settle_experts(reading, r);
  settle_strategy(reading, r, notes);
  settle_passes(reading, r, notes);
  if (generates(r.recipe) && rollout_convention(r.recipe.framework->name)) {
    settle_rows(r, {});
    const std::int64_t of_step = r.recipe.micro_batch * r.recipe.grad_accum * job.strategy.mesh.batch_replicas();
    if (r.rollout.sequences > 0) r.rollout.updates = std::max<std::int64_t>(1, r.rollout.sequences / of_step);
  }
  return r;
}

/// Lists engine, answers and reference, with nothing left to a trainer's defaults.
json rollout_fields(const EstimateRequest& request, const Strategy& strategy) {
  if (!generates(request.recipe)) return json::object();
  const JobRollout r = job_rollout(Job(request, strategy));
  const EngineChoice& choice = request.rollout.engine;
  const bool is_server = r.setup.place == EnginePlace::Server, is_own = r.setup.engine->in_trainer;
  json fields{{"engine", r.setup.engine->name},
              {"generations", r.batch.generations},
              {"prompt_len", r.batch.prompt_len},
              {"completion_len", r.batch.max_completion},
              {"mean_prompt", r.batch.mean_prompt},
              {"mean_completion", r.batch.mean_completion},
              {"answers at once", r.batch.sequences},
              {"iterations", request.rollout.iterations},
              {"reference", to_string(reference_of(request.recipe))}};
  if (is_own) return {{"rollout", std::move(fields)}};
  fields.update({{"place", to_string(r.setup.place)},
                 {"utilisation", r.setup.utilisation},
                 {"tp", r.setup.tp},
                 {"gpus", r.setup.num_gpus},
                 {"sleep", !is_server && r.setup.sleeps},
                 {"offload", to_string(is_server ? TrainerOffload::No : r.offloads)},
                 {"async", writes_ahead(request)},
                 {"adapter_sync", choice.syncs_adapter},
                 {"sync_batches", choice.sync_batches},
                 {"sync_bucket", choice.sync_bucket.count}});
  return {{"rollout", std::move(fields)}};
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

/// Gives the plan that the files train, in so far as it is another than the planned one; nothing where only another
/// program can train what was planned.
std::optional<EstimateRequest> plan_of_files(const std::vector<Difference>& all, const EstimateRequest& read,
                                             const Strategy& strategy, const ExportJob& job) {
  const EstimateRequest& planned = job.request;
  if (planned.recipe.is_adapter() && !read.recipe.is_adapter()) return std::nullopt;
  EstimateRequest out = planned;
  if (strategy_fields(strategy) != strategy_fields(job.strategy)) {
    out.strategy = strategy.name;
    out.options = read.options;
  }
  const bool is_base_alone = all.front().path == "lora.base_dtype" && all.front().read.is_null();
  const bool takes_framework = is_base_alone || (all.size() > 1 && strategy.name == job.strategy.name);
  out.recipe = read.recipe;
  out.recipe.kernels = layer_kernels(read.recipe, *read.recipe.framework);
  if (!takes_framework) out.recipe.framework = planned.recipe.framework;
  return out;
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
    const auto engine = [](const json& rollout) {
      return json{{"engine", rollout.value("/rollout/engine"_json_pointer, "")}};
    };
    const json planned = rollout_fields(job.request, job.strategy), its = rollout_fields(read, job.strategy);
    if (found.size() == num_before && !planned.empty()) add_differences(found, engine(planned), engine(its), "rollout");
    if (found.size() == num_before) add_differences(found, planned, its);
  }
  if (found.empty()) return;
  answer.instead = plan_of_files(found, read, strategy, job);
  answer.nearest = answer.instead ? "export for another program" : "--for trl, axolotl or llama-factory";
  if (is_other_strategy) {
    answer.refusal = fmt::format("the files of {} would train with {}, and the plan is {}", target.name, strategy.name,
                                 job.strategy.name);
    return;
  }
  const Difference& first = found.front();
  const std::string what = first.path == "kernels" ? "kernels of norms and MLPs" : first.path;
  answer.refusal = fmt::format("the files of {} cannot say {} {}: they would train with {}", target.name, what,
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

void refuse(ExportAnswer& answer, const WhyNot& no, const EstimateRequest& planned) {
  refuse(answer, no.why, no.nearest);
  if (no.strategy.empty() && !no.trains_all) return;
  answer.instead = planned;
  if (no.trains_all) answer.instead->recipe.method = Method::Full, answer.instead->recipe.quant = {};
  if (!no.strategy.empty()) {
    answer.instead->strategy = no.strategy;
    answer.instead->options.shard_size.reset();
  }
  if (no.fsdp_version) answer.instead->options.fsdp_version = no.fsdp_version;
  const EstimateRequest& other = *answer.instead;
  const Strategy strategy = make_strategy(other.strategy, other.cluster, options_for(other));
  if (!why_not_applicable(strategy, other.cluster, other.recipe, other.model).empty())
    answer.instead->recipe.offload = {};
}

/// Lists the flags by which `other` is planned in place of `planned`.
std::string flags_to(const EstimateRequest& planned, const EstimateRequest& other) {
  const auto settled = [](EstimateRequest r) {
    settle_stack(r);
    return r;
  };
  const EstimateRequest a = settled(planned), b = settled(other);
  const Strategy own = make_strategy(a.strategy, a.cluster, options_for(a)),
                 its = make_strategy(b.strategy, b.cluster, options_for(b));
  std::vector<Difference> found;
  add_differences(found, strategy_fields(own), strategy_fields(its));
  add_differences(found, recipe_fields(a.recipe, its), recipe_fields(b.recipe, its));
  std::vector<std::string> fields;
  if (own.name != its.name) fields.emplace_back("name");
  if (a.recipe.framework != b.recipe.framework) fields.emplace_back("framework");
  for (const Difference& d : found) fields.push_back(d.path);
  std::string words = plan_with(fields, b, its);
  if (a.options.shard_size && !b.options.shard_size)
    words += (words.find(", without") == std::string::npos ? ", without --shard-size" : " and --shard-size");
  return words;
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

/// Says why a target's files would not train the plan's method, or not on such data.
WhyNot why_not_method(const ExportJob& job, const Target& target) {
  const TrainingMethod& method = *job.request.recipe.objective.method;
  if (!target.trainer || job.request.recipe.objective.method.is_usual()) return {};
  if (!job.method) {
    const std::string others = programs_of_method(method.name);
    return {fmt::format("gpuplan writes no files of {} for {} ({})", target.name, method.name, method.title),
            others.empty() ? "--for accelerate, with a script of your own" : "--for " + others};
  }
  const bool is_right = !job.data.is_file || job.data.rows == job.method->rows;
  if (!is_right)
    return {fmt::format("{} needs other rows than {} holds", method.name, job.data.name),
            job.method->rows == DataRows::Pairs      ? "rows with prompt, chosen and rejected"
            : job.method->rows == DataRows::Labelled ? "rows with prompt, completion and label"
                                                     : "rows with prompt"};
  if (const std::string why = why_not_answers(*job.method, job.data); !why.empty())
    return {fmt::format("{} does not read the rows of {} for {}: {}", target.name, job.data.name, method.name, why),
            "such rows in --data"};
  return {};
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
  const bool is_divided =
      mesh.ways(Axis::Tp) > 1 || mesh.shares_experts() || (mesh.num_stages() > 1 && !job.strategy.takes_turns());
  if (!target.divides_layers && is_divided)
    return refuse(answer,
                  fmt::format("the files of {} do not say tensor, expert and pipeline parallelism", target.name),
                  "--for megatron-swift or torchtitan, or plan without --tp, --ep and --pp");
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
  if (const WhyNot no = why_not_method(job, target); !no.why.empty()) return refuse(answer, no, r);
  if (const WhyNot no = target.why_not ? target.why_not(job) : WhyNot{}; !no.why.empty()) return refuse(answer, no, r);
  if (!job.versions_cannot.why.empty()) return refuse(answer, job.versions_cannot.why, job.versions_cannot.nearest);
  if (target.needs_zero && !job.is_zero())
    return refuse(
        answer,
        WhyNot{.why = fmt::format("DeepSpeed's file says stages of ZeRO, and the plan is {}", job.strategy.name),
               .nearest = "--for accelerate",
               .strategy = job.strategy.layout.shards_weights ? "zero3" : "zero1"},
        r);
  if (target.job && job.setup.engine_place == "server" && job.program.empty())
    return refuse(answer, "a job starts one program, and the plan has a server of answers beside the trainer",
                  "plan with --rollout-engine vllm:colocate, or --for " + std::string(target.trainer));
  if (target.job && target.needs_cluster && job.num_nodes() > 1)
    return refuse(answer,
                  fmt::format("{} on several machines is one cluster of Ray, which no job here starts", target.trainer),
                  "--for " + std::string(target.trainer));
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

/// Settings of the user's file stand in the trainer's file where the words are its own; of another program's file those
/// that both have.
void place_settings(ExportJob& job, const Target& target, const std::shared_ptr<const CarriedSettings>& given) {
  if (!given) return;
  job.left = given;
  if (!target.trainer || !target.keeps_settings) return;
  if (given->trainer == target.trainer) return job.carried.swap(job.left);
  const KeyTable* const from = find_key_table(given->trainer);
  if (!from) return;
  auto [shared, rest] =
      shared_settings(given->settings, *from, target_table(target.trainer), job.request.recipe.objective.method->name);
  const auto of_file = [&](nlohmann::json settings, const std::string& words) {
    return settings.empty()
               ? nullptr
               : std::make_shared<const CarriedSettings>(CarriedSettings{words, given->file, std::move(settings)});
  };
  job.carried = of_file(std::move(shared), target.trainer);
  job.left = of_file(std::move(rest), given->trainer);
  job.carries_part = job.carried != nullptr;
  job.part_of = job.carries_part ? from : nullptr;
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
                .data = places.data,
                .trainer = target.trainer};
  if (job.setup.deepspeed_file && !places.folder.empty())
    job.setup.deepspeed_file = (std::filesystem::path(places.folder) / *job.setup.deepspeed_file).string();
  place_settings(job, target, places.carried);
  if (target.trainer) job.method = find_method_files(target.trainer, request.recipe.objective.method->name);
  if (target.adapt) target.adapt(job.setup, request, strategy);
  const KeyTable& reader = target_table(target.trainer ? target.trainer : "accelerate");
  job.versions_cannot = add_stack_facts(job, reader.framework, target.has_launcher);
  if (target.trainer) return job;
  // the Trainer of a file that was read keeps its own switch, and stops at two
  if (!places.has_script && !places.carried) let_engine_checkpoint(job.setup, request.recipe);
  job.left_to_script = script_settings(job, !job.is_zero() || target.add == add_torchrun);
  return job;
}

/// Tells what becomes of the settings of the user's file.
void note_carried(ExportAnswer& answer, const ExportJob& job) {
  if (job.carried)
    answer.notes.push_back(fmt::format(
        "{} as in {}; relative paths are taken from the folder of these files: {}",
        job.carries_part ? "these settings, which the plan does not decide, are" : "what the plan does not decide is",
        job.carried->file, names_of_carried(job.carried->settings)));
  if (job.left && !job.trainer)
    answer.notes.push_back(fmt::format("these files start a script and name no data: of {} it must do {}",
                                       job.left->file, names_of_carried(job.left->settings)));
  else if (job.left)
    answer.notes.push_back(fmt::format("settings of {} that {} keys say are left behind: {}", job.left->file,
                                       job.left->trainer, names_of_carried(job.left->settings)));
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
  for (const Target& target : export_target_rows()) names.emplace_back(target.name);
  return names;
}

namespace {

/// The target that is named for a plan. Of the trainers' files axolotl's alone say which fake quantisers there are, and
/// which parameters alone are trained, whatever they are; LLaMA-Factory's say some, which is known once they are
/// written. A method beside fine-tuning is the trainer's own: a launcher alone does not train it.
std::string_view hinted_target(const Recipe& recipe) {
  const bool can_say = recipe.framework->name == "axolotl" && !recipe.trained_in_turn &&
                       (recipe.trained.empty() || !recipe.is_adapter()) &&
                       (recipe.qat == Qat::None || !fake_quant_row(recipe.qat).dtypes.empty());
  const bool needs_script = (!recipe.trained.empty() || recipe.qat != Qat::None) && !can_say;
  const auto is_own = [&](const Target& t) { return !needs_script && t.trainer && t.name == recipe.framework->name; };
  const bool divides = !recipe.framework->tensor_parallel.strategies.empty();
  auto found = std::ranges::find_if(export_target_rows(), is_own);
  if (found != export_target_rows().end()) return found->name;
  if (generates(recipe)) return {};
  if (divides) found = std::ranges::find_if(export_target_rows(), &Target::divides_layers);
  return found == export_target_rows().end() ? "accelerate" : found->name;
}

}  // namespace

/// Files that would train something else with the user's own settings, for which `why` is the reason, are written
/// without them.
static ExportAnswer export_without_settings(const EstimateRequest& request, std::string_view name, const PlanMark& mark,
                                            const Versions& versions, ExportPlaces places, const std::string& why) {
  const std::shared_ptr<const CarriedSettings> left = std::exchange(places.carried, nullptr);
  ExportAnswer answer = export_plan(request, name, mark, versions, places);
  if (!answer.is_refused())
    answer.notes.push_back(fmt::format("settings of {} do not go with this plan ({}) and are left behind: {}",
                                       left->file, why, names_of_carried(left->settings)));
  return answer;
}

/// Exports this very plan, or says why not.
static ExportAnswer export_as_planned(const EstimateRequest& planned, std::string_view name, const PlanMark& mark,
                                      const Versions& versions, const ExportPlaces& places) {
  const std::string& framework = planned.recipe.framework->name;
  const bool is_own = places.program.empty() || framework == "torch";  // else accelerate starts the program
  const Target target =
      find_target(name, is_own ? framework : "trl", places.carried && is_own ? places.carried->trainer : "");
  ExportAnswer answer;
  if (const std::string why = why_not_images(target, planned.model); !why.empty()) {
    refuse(answer, why, "--for trl or axolotl, or accelerate with a script of your own");
    return answer;
  }
  if (const WhyNot no = why_not_checkpoint(planned.model, target.trainer); !no.why.empty()) {
    refuse(answer, no.why, no.nearest);
    return answer;
  }
  const std::int64_t answers = answers_of_row(planned);
  if (generates(planned.recipe) && planned.rollout.generations == 0 && answers == 1 &&
      planned.recipe.objective.method->generations == 0) {
    refuse(answer,
           fmt::format("{} compares the answers to a prompt, and the plan does not say how many there are",
                       planned.recipe.objective.method->name),
           "plan with --generations, e.g. --generations 8");
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
  if (target.job) answer.files.insert(answer.files.begin(), target.job(job, answer.files));
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
    if (!answer.is_refused() && !job.keeps_data() && names_data == job.data.name.empty())
      answer.notes.emplace_back(
          names_data ? "the files name a small public data set: --data FILE or --data NAME on the Hub names yours"
                     : "--data is not in these files: name it to the script");
    if (job.method && !job.method->note.empty() && (!job.carried || job.carries_part))
      answer.notes.push_back(job.method->note);
    note_carried(answer, job);
    if (job.method && !job.method->needs.empty())
      answer.notes.push_back(fmt::format("the reward needs pip install {}", fmt::join(job.method->needs, " ")));
    if (!target.trainer) answer.notes.push_back(left_to_script(job));
  } catch (const InputError& error) { refuse(answer, error.problem(), error.hint()); }
  if (answer.is_refused() && job.carried)
    return export_without_settings(planned, name, mark, versions, places, answer.refusal);
  if (answer.is_refused()) answer.files.clear();
  return answer;
}

ExportAnswer export_plan(const EstimateRequest& planned, std::string_view name, const PlanMark& mark,
                         const Versions& versions, const ExportPlaces& places) {
  ExportAnswer answer = export_as_planned(planned, name, mark, versions, places);
  constexpr int kMostSteps = 6;  // each sets what the step before could not be written with
  std::optional<EstimateRequest> nearer = std::exchange(answer.instead, std::nullopt);
  for (int step = 0; nearer && step < kMostSteps; ++step) {
    ExportAnswer next = export_as_planned(*nearer, name, mark, versions, places);
    if (next.is_refused()) {
      nearer = std::move(next.instead);
      continue;
    }
    const std::string words = flags_to(planned, *nearer);
    if (words.empty()) break;
    const bool has_other = answer.nearest.starts_with("--for");
    answer.nearest = words + (has_other ? ", or " + answer.nearest : "");
    break;
  }
  return answer;
}

std::string export_hint(const std::string& plan_file, const EstimateRequest& request) {
  const Recipe& recipe = request.recipe;
  const std::string_view target = hinted_target(recipe);
  if (target.empty())
    return fmt::format("gpuplan writes no files of {} for {}", recipe.framework->name, recipe.objective.method->name);
  const ExportAnswer answer = export_plan(request, target, {.file = plan_file, .sha256 = std::string(64, '0')});
  constexpr std::string_view kNone = "gpuplan writes no files of ";
  if (answer.refusal.starts_with(kNone) && target != recipe.framework->name) {  // nobody named the target
    const std::string others = programs_of_method(recipe.objective.method->name);
    return fmt::format("{}{} for {}{}", kNone, recipe.framework->name, recipe.objective.method->name,
                       others.empty() ? "" : fmt::format("; --for {} writes those of another trainer", others));
  }
  if (answer.refusal.starts_with(kNone)) return answer.refusal;
  if (answer.is_refused()) return fmt::format("{}{} for it: {}", kNone, target, answer.refusal);
  return fmt::format("gpuplan export {} --for {} writes files that train it", shell_word(plan_file), target);
}

}  // namespace gpuplan
