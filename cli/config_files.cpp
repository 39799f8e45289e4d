#include "cli/config_files.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/unit_text.h"
#include "cli/arguments.h"
#include "cli/output_flags.h"
#include "cli/plan_flags.h"
#include "cluster/cluster_spec.h"
#include "cluster/gpu_spelling.h"
#include "ecosystem/module_targets.h"
#include "ecosystem/named_data.h"
#include "ecosystem/trained_parameters.h"
#include "ecosystem/usual_targets.h"
#include "models/catalogue.h"
#include "models/training_method.h"
#include "planner/engine_gpus.h"
#include "planner/peaks.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

/// "4xA6000", and not "A6000".
bool says_how_many(const std::string& gpus) { return digits_of_count(gpus) > 0; }

/// "/models/a", "./a", "out/run/a", and not "maker/a".
bool is_local_path(const std::string& model) {
  return model.find_first_of("/.~") == 0 || std::count(model.begin(), model.end(), '/') > 1;
}

/// The name of the catalogue's model that a text means; empty for others.
std::string catalogue_name(const std::string& text) {
  const CatalogueEntry* const entry = find_in_catalogue(text);
  return entry ? entry->name : "";
}

/// "/models/Qwen2.5-7B-Instruct/" names a model by its last folder; so does "unsloth_Qwen2.5-7B.yaml".
std::string model_named_by(const fs::path& path) {
  const fs::path last = path.has_filename() ? path.filename() : path.parent_path().filename();
  if (std::string name = catalogue_name(last.string()); !name.empty()) return name;
  std::string stem = last.extension() == ".yaml" || last.extension() == ".yml" ? last.stem().string() : "";
  const std::size_t maker = stem.find('_');
  if (maker == std::string::npos) return "";
  stem[maker] = '/';
  return catalogue_name(stem);
}

std::string model_hint(const fs::path& path) {
  const std::string name = model_named_by(path);
  return name.empty() ? "say it by --model NAME ('gpuplan models' lists them; a folder with a config.json works too)"
                      : fmt::format("--model {} says it, if that is the model", name);
}

}  // namespace

namespace {

/// Looks in the current folder first, as the programs do. Source: huggingface/accelerate
/// src/accelerate/utils/deepspeed.py
/// @16cb6eb80 (HfDeepSpeedConfig, which transformers, LLaMA-Factory and TRL hand the name to), axolotl-ai-cloud/axolotl
/// src/axolotl/utils/config/__init__.py @067b021c8: open() of the name as it stands.
std::optional<fs::path> find_named_path(const std::string& named, const std::string& by) {
  constexpr int kFoldersAbove = 6;
  const fs::path folder = fs::path(by).parent_path();
  std::vector<fs::path> places{named, folder / named, folder / fs::path(named).filename()};
  for (fs::path above = absolute_path(by).parent_path(); places.size() < 3 + kFoldersAbove && !above.empty();
       above = above.parent_path()) {
    if (above == above.parent_path()) break;
    places.push_back(above.parent_path() / named);
  }
  for (const fs::path& path : places)
    if (is_file(path))
      return folder.is_absolute() || fs::path(named).is_absolute()
                 ? path
                 : path.lexically_proximate(absolute_path(".").lexically_normal());
  return std::nullopt;
}

}  // namespace

std::optional<ConfigFile> find_named_config(const std::string& named, const std::string& by) {
  const auto path = find_named_path(named, by);
  if (!path) return std::nullopt;
  ConfigFile file{path->string(), read_file(*path, kLogLimit)};
  const fs::path beside = fs::path(by).parent_path() / named;
  if (is_file(beside) && file_identity(beside) != file_identity(*path)) file.other = beside.string();
  return file;
}

std::vector<ConfigFile> read_config_files(const std::vector<std::string>& names) {
  std::vector<ConfigFile> files;
  for (const std::string& name : names) files.push_back({name, read_file(name, kLogLimit)});
  return files;
}

void load_named_model(const ConfigReading& configs, const std::function<void(const std::string& model)>& load) {
  // beside a model, the alias may be an architecture alone, which many models have
  const std::string stated = configs.setup.model_alias.value_or("");
  std::string alias = configs.model ? "" : catalogue_name(stated);
  if (!configs.model && alias.empty()) alias = catalogue_name(stated.substr(stated.rfind('/') + 1));  // of a folder
  if (!configs.model && alias.empty()) throw InputError(configs.file, "names no model", model_hint(configs.file));
  const std::string& model = configs.model ? *configs.model : alias;
  try {
    load(model);
  } catch (const InputError&) {
    if (!is_local_path(model)) throw;
    throw InputError(configs.file, fmt::format("names the model {}, which is not here", model), model_hint(model));
  } catch (const EnvError& error) {
    throw EnvError(fmt::format("{}\n  --model NAME takes another one, or a folder with its config.json", error.what()));
  }
}

void add_config_flag(CLI::App& app) {
  add_flag(app, "--from", "FILE",
           "a configuration of accelerate, DeepSpeed, transformers, TRL, axolotl, LLaMA-Factory, ms-swift or "
           "torchtune, a shell "
           "or Slurm script that starts a training, a Python script or notebook that sets one up, PEFT's "
           "adapter_config.json, a "
           "plan, or a log with PyTorch's out-of-memory message; may be repeated. Flags override it. --deepspeed FILE "
           "is the "
           "same",
           "Options", Declared::Always)
      ->expected(1, 1 << 30)
      ->allow_extra_args(false);
}

/// Facts of a training on answers that flags say, in the words of the files: batches of prompts are made of them.
static std::vector<FlagFact> facts_of_flags(const CLI::App& app) {
  std::vector<FlagFact> out;
  const auto add = [&](const char* flag, std::string_view longest, std::string_view mean = {}) {
    const CLI::Option* const option = app.get_option_no_throw(flag);
    if (!option || option->count() == 0) return;
    const std::vector<std::string> numbers = split(option->as<std::string>(), ',');
    out.push_back({longest, parse_integer(numbers.back(), flag, 1), flag});
    if (!mean.empty()) out.push_back({mean, numbers.size() > 1 ? parse_integer(numbers.front(), flag, 1) : 0, flag});
  };
  add("--generations", "generations");
  add("--updates", "mini_batches");
  add("--iterations", "iterations");
  add("--prompt-len", "prompt_len", "mean_prompt");
  add("--completion-len", "completion_len", "mean_completion");
  return out;
}

SaidBeside said_beside(const CLI::App& app) {
  using Words = std::pair<const char*, std::string_view>;
  constexpr std::array kFacts{Words{"--micro-batch", "micro_batch"},
                              Words{"--grad-accum", "grad_accum"},
                              Words{"--seq-len", "seq_len"},
                              Words{"--optimizer", "optimizer"},
                              Words{"--attention", "attention"},
                              Words{"--checkpointing", "checkpointing"},
                              Words{"--qlora", "quant_bits"},
                              Words{"--qlora", "rank"},
                              Words{"--qlora", "targets"},
                              Words{"--lora", "quant_bits"},
                              Words{"--lora", "rank"},
                              Words{"--lora", "targets"},
                              Words{"--full", "quant_bits"},
                              Words{"--full", "rank"},
                              Words{"--full", "targets"}};
  SaidBeside said;
  for (const auto& [flag, fact] : kFacts)
    if (const CLI::Option* const option = app.get_option_no_throw(flag); option && option->count() > 0)
      said.facts.emplace_back(fact);
  const CLI::Option* const gpus = app.get_option_no_throw("--gpus");
  if (!gpus || gpus->count() == 0) return said;
  try {
    said.num_gpus = parse_gpus(gpus->as<std::string>()).num_gpus();
  } catch (const InputError&) { return said; }  // told where the cluster is read
  return said;
}

std::optional<ConfigReading> given_configs(const CLI::App& app) {
  const std::vector<std::string> names = all_given(app, "--from");
  if (names.empty()) return std::nullopt;
  const auto versions = given(app, "--versions"), method = given(app, "--method");
  const auto objective = method ? words_of_method(*method).trained_for : std::nullopt;
  const FindConfig find = [&](const std::string& named, const std::string& by) {
    std::optional<ConfigFile> found = find_named_config(named, by);
    if (found) require_not_written(app, found->name, by);
    return found;
  };
  return read_configs(read_config_files(names), find, versions ? parse_stack_versions(*versions) : StackVersions{},
                      objective ? find_training_method(*objective).name : "", facts_of_flags(app), Broken::Refused,
                      said_beside(app));
}

std::vector<std::string> mistakes_in(const ConfigReading& configs) {
  constexpr std::array kDataEndings{".json", ".jsonl", ".csv", ".parquet", ".arrow"};
  std::vector<std::string> out = configs.mistyped;
  for (const std::string& name : configs.setup.data_sets.value_or(std::vector<std::string>{})) {
    const bool is_file_name = std::ranges::any_of(kDataEndings, [&](const char* end) { return name.ends_with(end); });
    const bool is_elsewhere = name.find("://") != std::string::npos;
    if (is_file_name && !is_elsewhere && !named_by_folder(name) && !find_named_path(name, configs.file))
      out.push_back(
          fmt::format("{} names the data {}, which is not there: its rows are not known", configs.file, name));
  }
  return out;
}

std::string evaluation_note(const ConfigReading& configs, const EstimateRequest& request,
                            const StrategyEstimate& plan) {
  if (plan.peak.instant != PeakInstant::Evaluation || eval_batch(request) == 1) return {};
  for (const SettingsPart& part : configs.parts) {
    if (part.table->role != FileRole::Trainer) continue;
    const auto stated = part.keys_of.find("eval_batch");
    const auto row = std::ranges::find_if(
        part.table->rows, [](const KeyRow& r) { return r.field && r.field->name == "eval_batch" && r.is_written; });
    if (stated == part.keys_of.end() && row == part.table->rows.end()) continue;
    return fmt::format("evaluation needs the most memory: {} of {} lowers it",
                       stated != part.keys_of.end() ? stated->second : row->key,
                       part.file.empty() ? part.script : part.file);
  }
  return {};
}

std::int64_t steps_of(const EstimateRequest& request, const StrategyEstimate& plan) {
  return std::llround(std::ceil(double(plan.steps_per_epoch) * request.dataset.epochs));
}

bool says_rows(const CLI::App& app) {
  constexpr std::array kRowFlags{"--rows", "--tokens", "--lengths", "--data"};
  return std::ranges::any_of(kRowFlags, [&](const char* flag) { return is_given(app, flag); });
}

/// prepare_model_for_kbit_training casts every weight that no library has quantised to fp32. Source: huggingface/peft
/// src/peft/utils/other.py @v0.20.0.
static void settle_prepared_base(const ConfigReading& configs, EstimateRequest& request,
                                 std::vector<std::string>& notes) {
  Recipe& recipe = request.recipe;
  const bool is_plain = recipe.quant.kind == BaseQuant::None && !request.model.checkpoint.is_present();
  if (!configs.setup.prepares_kbit.value_or(false) || !recipe.is_adapter() || !is_plain) return;
  recipe.lora.base_dtype = Dtype::F32;
  if (recipe.precision == Precision::Bf16True) recipe.precision = Precision::Fp32;
  notes.emplace_back(
      "prepare_model_for_kbit_training casts a base that is not quantised to fp32, 4 bytes per weight: leave it out");
}

namespace {

/// The engine's part of so many GPUs, in the proportion of the files' own division as nearly as it can be: whole groups
/// of `unit`, whole replicas of the model, and first of all ranks that share the files' batch evenly; 0: there is none.
std::int64_t engine_part(std::int64_t in_all, std::int64_t that_train, std::int64_t answering, std::int64_t unit,
                         std::int64_t gpus_of_replica, std::int64_t rows) {
  const double wanted = double(in_all) * double(answering) / double(that_train + answering);
  const auto rank = [&](std::int64_t own) {
    return std::pair(rows % ((in_all - own) / gpus_of_replica) != 0, std::abs(double(own) - wanted));
  };
  std::int64_t best = 0;
  for (std::int64_t own = unit; own < in_all; own += unit)
    if ((in_all - own) % gpus_of_replica == 0 && (best == 0 || rank(own) < rank(best))) best = own;
  return best;
}

/// Takes the division of the files: theirs on as many GPUs as they need, in proportion on others.
/// Returns what another number than theirs changes.
std::string divide_as_files(const ConfigReading& configs, EstimateRequest& request, std::int64_t in_all) {
  if (!configs.setup.num_processes) return "";
  const std::int64_t that_train = *configs.setup.num_processes;
  EngineChoice& engine = request.rollout.engine;
  if (engine.gpus == 0) {  // the file does not say how many
    if (in_all > that_train) return engine.gpus = in_all - that_train, "";
    return fmt::format(
        "the files start {} processes that train, and the engine has GPUs of its own: they need {} GPUs "
        "or more",
        that_train, that_train + 1);
  }
  const std::int64_t needed = that_train + engine.gpus, files_own = engine.gpus;
  if (in_all == needed) return "";
  const StrategyOptions& o = request.options;
  const std::int64_t of_stage = std::lcm(o.tp * o.cp, o.ep * o.ways_of_expert()),
                     tp = std::max<std::int64_t>(1, engine.tp);
  // settings that count whole machines divide several of them by machines
  const bool counts_machines = configs.setup.counts_engine.value_or(false) && request.cluster.num_nodes() > 1;
  const std::int64_t unit = counts_machines ? std::lcm(tp, request.cluster.gpus_per_node) : tp;
  const std::int64_t rows =
      configs.setup.packs_first.value_or(false) ? 0 : configs.step_rows.value_or(0) / request.recipe.micro_batch;
  const std::int64_t part = engine_part(in_all, that_train, engine.gpus, unit, o.pp * of_stage, rows);
  if (part == 0)
    throw InputError(
        "--gpus",
        fmt::format(
            "the files run on {} GPUs, {} that train in groups of {} and {} of the engine in groups of {}: {} {} too "
            "few",
            needed, that_train, o.pp * of_stage, files_own, unit, in_all, in_all == 1 ? "is" : "are"),
        fmt::format("--gpus with {}", needed));
  engine.gpus = part;
  return fmt::format("the files run on {} GPUs, {} that train and {} of the engine; of the {} asked about {} train",
                     needed, that_train, files_own, in_all, in_all - part);
}

}  // namespace

std::string settle_gpus(const CLI::App& app, const ConfigReading* configs, GivenGpus have, EstimateRequest& request,
                        std::vector<std::string>& notes) {
  if (request.cluster.gpus.empty()) return "";  // plan looks for some
  const bool is_apart = have.are_divided && has_engine_apart(request);
  const auto gpus = given(app, "--gpus");
  bool is_open = !gpus || !(says_how_many(*gpus) || is_given(app, "--num-gpus"));
  is_open &= configs && request.cluster.num_gpus() == 1 && !request.cluster.is_mixed();
  if (is_open) {
    const auto& processes = configs->setup.num_processes ? configs->setup.num_processes : configs->setup.visible_gpus;
    const std::int64_t in_all = !processes ? 1 : *processes + (is_apart ? engine_gpus(request, *processes) : 0);
    if (in_all > 1) request.cluster = resized(request.cluster, in_all);
    if (in_all > 1)
      notes.push_back(fmt::format("{} GPUs, as many as the files {}", in_all, is_apart ? "need" : "start processes"));
  }
  if (!have.are_divided) return "";
  const std::int64_t in_all = have.of_plan > 0 ? have.of_plan : request.cluster.num_gpus();
  std::string other;
  if (is_apart && configs && !is_given(app, "--rollout-engine")) other = divide_as_files(*configs, request, in_all);
  divide_gpus(request, in_all);
  return other;
}

/// A file that states what is generated and what an optimizer step takes leaves no other number of steps.
static void refuse_other_updates(const CLI::App& app, const Rollout& rollout) {
  const auto wanted = given(app, "--updates");
  if (!wanted || rollout.sequences == 0 || std::to_string(rollout.updates) == *wanted) return;
  throw InputError("--updates",
                   fmt::format("the file's optimizer steps take the {} answers of a generation in {}",
                               format_grouped(rollout.sequences), rollout.updates),
                   "change what is generated at once, or the batch, in the file");
}

SettledData settle_configs(const CLI::App& app, const ConfigReading& configs, EstimateRequest& request,
                           std::vector<std::string>& notes) {
  const bool says_method = is_given(app, "--lora") || is_given(app, "--qlora") || is_given(app, "--full");
  if (!configs.open_method.empty() && !says_method)
    throw InputError(fmt::format("{}: {}", configs.file, configs.open_method),
                     "is a flag of the script's own that speaks of adapters or of a quantised base",
                     "say what it trains: --lora r=16, --qlora r=16 or --full");
  if (!is_given(app, "--attention-groups")) settle_attention(configs, request, notes);
  settle_head(configs, request);
  settle_positions(configs, request);
  if (!says_method) settle_prepared_base(configs, request, notes);
  if (!is_given(app, "--train-vision")) settle_vision(configs, request);
  const bool has_usual =
      std::ranges::find(request.recipe.lora.targets, kUsualTargets) != request.recipe.lora.targets.end();
  if (has_usual || (!is_given(app, "--lora") && !is_given(app, "--qlora"))) settle_targets(request, notes);
  if (!is_given(app, "--train-only") && !is_given(app, "--full")) settle_trained(configs, request, notes);
  if (!is_given(app, "--etp")) settle_experts(configs, request);
  const bool has_gpus = !request.cluster.gpus.empty();  // else plan looks for some
  if (has_gpus && !is_given(app, "--strategy")) settle_strategy(configs, request, notes);
  if (has_gpus && !is_given(app, "--grad-accum") && !is_given(app, "--global-batch"))
    settle_passes(configs, request, notes);
  if (has_gpus) refuse_other_updates(app, request.rollout);
  const bool says_all = is_given(app, "--lengths") || is_given(app, "--data") || is_given(app, "--tokens");
  if (says_all || !configs.has_trainer) return {.has_rows = says_rows(app), .words = {}, .lengths = {}};
  const GivenData given{.rows = is_given(app, "--rows"), .tokens_per_row = is_given(app, "--tokens-per-row")};
  return settle_data(configs, find_named_path, given, request, notes);
}

}  // namespace gpuplan
