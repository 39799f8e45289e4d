// From flags and files to a question.
#include "cli/plan_question.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <istream>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "base/unit_text.h"
#include "cli/arguments.h"
#include "cli/config_files.h"
#include "cli/plan_defaults.h"
#include "cli/plan_flags.h"
#include "cluster/host.h"
#include "cluster/profile/profile_store.h"
#include "ecosystem/carried_keys.h"
#include "models/catalogue.h"
#include "models/framework.h"
#include "models/hf_config.h"
#include "models/training_method.h"
#include "planner/changes.h"
#include "planner/engine_gpus.h"
#include "planner/plan/plan_file.h"

namespace gpuplan {
namespace {

using nlohmann::json;
using Request = EstimateRequest;

struct Pair {
  const char* one;
  const char* other;
  const char* hint;
};
constexpr std::array kContradictions{
    Pair{"--full", "--lora", "--full trains every weight, --lora only adapters"},
    Pair{"--full", "--qlora", "--full trains every weight, --qlora only adapters"},
    Pair{"--lora", "--qlora", "--qlora is --lora on a 4-bit base"},
    Pair{"--full", "--int8", "an 8-bit base is frozen and needs --lora"},
    Pair{"--qlora", "--int8", "--qlora holds the base in 4 bit; --lora --int8 holds it in 8"},
    Pair{"--zero-quantized-weights", "--qlora", "it quantises 16-bit weights, and the base of --qlora is quantised"},
    Pair{"--zero-quantized-weights", "--int8", "it quantises 16-bit weights, and the base of --int8 is quantised"},
    Pair{"--rows", "--tokens", "both say how much is trained on"},
    Pair{"--gpus", "--cluster", "one of them says what the plan runs on"}};

void check_contradictions(const CLI::App& app) {
  for (const Pair& pair : kContradictions)
    if (is_given(app, pair.one) && is_given(app, pair.other))
      throw InputError("", fmt::format("{} and {} contradict each other", pair.one, pair.other), pair.hint);
}

/// DeepSpeed's settings need its engine.
void check_zero_flags(const CLI::App& app, const FrameworkConvention& framework) {
  if (framework.zero.is_deepspeed()) return;
  for (const char* flag : {"--overlap-comm", "--reduce-bucket-size", "--zero-quantized-weights"})
    if (is_given(app, flag))
      throw InputError(flag, fmt::format("is DeepSpeed's, which {} does not use", framework.name),
                       "for example --framework hf-deepspeed");
}

bool sees_images(const Request& r) { return r.model.family.empty() || r.model.vision.is_present(); }

/// Says whether the strategy asked for is such a row, or may become one.
template <class Has>
bool may_be(const Request& r, Has has) {
  return std::ranges::any_of(strategy_rows(), [&](const StrategyRow& row) {
    return (r.strategy == "auto" || r.strategy == row.name) && has(row);
  });
}
bool shares_layers(const Request& r) { return r.options.tp > 1; }
bool shares_sequences(const Request& r) { return r.options.cp > 1; }
bool has_teacher(const Request& r) { return r.recipe.objective.method->distils; }
bool reads_texts(const Request& r) { return r.recipe.objective.method->head == MethodHead::Pooled; }
bool has_stages(const Request& r) { return r.options.pp > 1; }
bool may_be_fsdp(const Request& r) {
  return may_be(r, [](const StrategyRow& row) { return is_fsdp(row.engine); });
}
bool may_be_zero(const Request& r) {
  return may_be(r, [](const StrategyRow& row) { return row.engine == ShardingEngine::Zero; });
}
bool may_shard(const Request& r) {
  return may_be(r, [](const StrategyRow& row) { return row.layout.shards_optimizer; });
}
bool may_gather_with_zero(const Request& r) {
  return may_be(r,
                [](const StrategyRow& row) { return row.engine == ShardingEngine::Zero && row.layout.shards_weights; });
}

/// Flags that mean something for some models and strategies alone.
struct NeedsMore {
  const char* flag;
  bool (*has_effect)(const Request& r);
  const char* why_not;
};
constexpr const char *kNoImages = "the model sees no images", *kNoFsdp = "the strategy is none of FSDP's",
                     *kNoZero = "the strategy is none of ZeRO's";
constexpr std::array kNeedMore{
    NeedsMore{"--image-size", sees_images, kNoImages},
    NeedsMore{"--images-per-row", sees_images, kNoImages},
    NeedsMore{"--train-vision", sees_images, kNoImages},
    NeedsMore{"--shard-size", may_shard, "the strategy shards nothing"},
    NeedsMore{"--sp", shares_layers, "no --tp shares the layers"},
    NeedsMore{"--tp-overlap", shares_layers, "no --tp shares the layers"},
    NeedsMore{"--cp-exchange", shares_sequences, "no --cp shares the sequences"},
    NeedsMore{"--pp-schedule", has_stages, "no --pp makes stages"},
    NeedsMore{"--virtual-stages", has_stages, "no --pp makes stages"},
    NeedsMore{"--stage-layers", has_stages, "no --pp makes stages"},
    NeedsMore{"--teacher-topk", has_teacher, "the method compares with no teacher"},
    NeedsMore{"--texts-per-row", reads_texts, "the method makes no embeddings of texts"},
    NeedsMore{"--fsdp-version", may_be_fsdp, kNoFsdp},
    NeedsMore{"--wrap", may_be_fsdp, kNoFsdp},
    NeedsMore{"--no-reshard", may_be_fsdp, kNoFsdp},
    NeedsMore{"--overlap-comm", may_be_zero, kNoZero},
    NeedsMore{"--reduce-bucket-size", may_be_zero, kNoZero},
    NeedsMore{"--zero-quantized-weights", may_gather_with_zero, "the strategy is not ZeRO-3"}};

void note_flags_without_effect(const CLI::App& app, PlanQuestion& question) {
  for (const NeedsMore& row : kNeedMore)
    if (is_given(app, row.flag) && !row.has_effect(question.request))
      question.notes.push_back(fmt::format("{} has no effect: {}", row.flag, row.why_not));
}

struct PlanText {
  std::string where;
  json content;
};

PlanText read_stdin(std::istream& in) {
  return {"standard input", parse_json(read_stream(in, "standard input", kPlanLimit), "standard input")};
}

bool is_plan(const json& content) { return content.is_object() && content.contains("schema_version"); }

/// The positional argument, which must be a plan.
PlanText read_named_plan(const std::string& name, std::istream& in) {
  if (name != "-" && !name.ends_with(".json") && !is_there(name))
    throw InputError(
        "", fmt::format("unexpected argument '{}'", name),
        fmt::format("a model is given as --model {}, a plan as a .json file", name.empty() ? "NAME" : name));
  PlanText plan = name == "-" ? read_stdin(in) : PlanText{name, read_json_file(name, kPlanLimit)};
  if (!is_plan(plan.content))
    throw InputError(plan.where, "is not a plan: it has no schema_version",
                     fmt::format("a model's config is given as --model {}", name));
  return plan;
}

/// A plan may also stand after --model; then it names the model too.
std::optional<PlanText> plan_behind_model(const std::string& model, std::istream& in) {
  if (model == "-") return read_named_plan(model, in);
  if (!model.ends_with(".json") || !is_file(model)) return {};
  PlanText plan{model, read_json_file(model, kPlanLimit)};
  if (!is_plan(plan.content)) return {};
  return plan;
}

/// The flags that were given beside the plan, as they were written.
std::string overrides_of(const CLI::App& app, bool model_is_plan) {
  std::string text;
  for (const PlanFlag& flag : plan_flags()) {
    const auto value = given(app, flag.name);
    const std::string_view name = flag.name;
    if (!value || name == "--offline" || (model_is_plan && name == "--model")) continue;
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", flag.name, value->empty() ? "" : " ", *value);
  }
  return text;
}

void set_model(PlanQuestion& question, const std::string& model, const HubSettings& hub) {
  LoadedModel loaded = load_model(model, hub);
  question.request.model = std::move(loaded.spec);
  for (std::string& note : loaded.notes) question.notes.push_back(std::move(note));
}

/// A model whose sizes a file states.
void set_stated_model(PlanQuestion& question, const ConfigReading& configs) {
  question.request.model = parse_hf_config(nlohmann::json::parse(configs.model_config), configs.file);
  question.request.model.name = "a model of the file's sizes";
  question.notes.push_back(fmt::format("{}: the model is made of the sizes that stand there", configs.file));
}

/// Takes a flag that not every command has.
bool is_given_here(const CLI::App& app, const std::string& flag) {
  const CLI::Option* const option = app.get_option_no_throw(flag);
  return option && option->count() > 0;
}

std::shared_ptr<const ModelSpec> load_other_model(const std::string& name, const char* what, const CLI::App& app,
                                                  PlanQuestion& question) {
  LoadedModel loaded = load_model(name, given_hub(app));
  for (std::string& note : loaded.notes) question.notes.push_back(fmt::format("{}: {}", what, note));
  return std::make_shared<const ModelSpec>(std::move(loaded.spec));
}

/// Loads the other models of a method.
void set_other_models(const CLI::App& app, PlanQuestion& question) {
  const auto set = [&](const char* flag, const char* what, std::shared_ptr<const ModelSpec>& model) {
    if (const auto name = given(app, flag)) model = load_other_model(*name, what, app, question);
  };
  EstimateRequest& r = question.request;
  set("--teacher", "teacher", r.teacher);
  set("--critic", "critic", r.critic);
  if (given(app, "--reward-model") == "none")
    r.rollout.judged_by_function = true;
  else
    set("--reward-model", "reward model", r.reward_model);
}

/// Loads the teacher that files name. A reward model that they ask for is as large as the model. Flags say others.
void set_named_models(const CLI::App& app, PlanQuestion& question, const ConfigReading& configs) {
  EstimateRequest& r = question.request;
  if (configs.setup.teacher && !r.teacher && r.recipe.objective.method->has_pass_of(PassModel::Teacher))
    r.teacher = load_other_model(*configs.setup.teacher, "teacher", app, question);
  if (!configs.setup.reward_model || r.reward_model || r.rollout.judged_by_function) return;
  r.reward_model = std::make_shared<const ModelSpec>(r.model);
  question.notes.emplace_back("the reward model is counted as large as the model: --reward-model says another");
}

/// Flags that must be given.
struct Needed {
  bool model = true, machine = true, method = true;
};

/// Without a plan, what it would have said.
void check_complete(const CLI::App& app, PlanQuestion& question, Needed needed, bool has_method) {
  if (needed.model && !is_given(app, "--model") && question.request.model.family.empty())
    throw InputError("--model", "is needed", "for example --model llama3-8b; 'gpuplan models' lists them");
  if (needed.machine && question.request.cluster.gpus.empty())
    throw InputError("--gpus", "is needed", "for example --gpus 4xA6000, --gpus local, or --cluster dgx-h100");
  if (needed.method && !has_method && !is_given(app, "--full") && !is_given(app, "--lora") && !is_given(app, "--qlora"))
    question.notes.push_back("full fine-tuning, as neither --lora nor --qlora is given");
}

/// Versions of a plan that are not asked for stay, under another framework too.
void set_versions(const CLI::App& app, EstimateRequest& request, const StackVersions& planned) {
  const auto list = given(app, "--versions");
  if (!list && (planned.empty() || !is_given(app, "--framework"))) return;
  StackVersions versions = list ? parse_stack_versions(*list) : StackVersions{};
  versions.insert(planned.begin(), planned.end());
  request.recipe.framework =
      resolve_framework(request.recipe.framework->name, {.given = std::move(versions), .date = {}});
}

void set_profile(const CLI::App& app, PlanQuestion& question) {
  const auto named = given(app, "--profile");
  EstimateRequest& r = question.request;
  if (r.cluster.gpus.empty()) return;  // each machine of a search has its own
  if (!named) {
    r.profile = profile_for(r.cluster, question.notes);
  } else if (*named != "default") {
    r.profile = find_profile(*named);
    if (r.profile->measured && !is_for(*r.profile, r.cluster))
      question.notes.push_back(fmt::format("profile {} was measured on {}, not on {}", r.profile->id,
                                           r.profile->measured->on.device, r.cluster.gpus.front().name));
  }
  if (std::string own = r.profile ? read_instead_of_shipped(*r.profile) : std::string(); !own.empty())
    question.notes.push_back(std::move(own));
}

/// The plan among the files of --from.
std::optional<PlanText> plan_of(const ConfigReading* configs) {
  if (!configs || !configs->plan) return {};
  return PlanText{configs->plan->name, parse_json(configs->plan->text, configs->plan->name)};
}

/// "256" of "256GiB".
std::string number_in(const std::string& text) { return text.substr(0, text.find_first_not_of("0123456789.eE+")); }

/// --host and --host-memory, of a machine that is given.
void set_given_host(const CLI::App& app, ClusterSpec& cluster) {
  const auto host = given(app, "--host"), memory = given(app, "--host-memory");
  if (!host && !memory) return;
  if (cluster.gpus.empty())
    throw InputError(host ? "--host" : "--host-memory", "is of a machine that is given",
                     "add for example --gpus 2x3090");
  if (host) set_host(cluster, *host);
  if (memory) cluster.host_memory = Bytes{std::int64_t(parse_number(number_in(*memory), "--host-memory") * 0x1p30)};
}

/// Rows of the table of changes that are flags, and were not given.
std::set<std::string, std::less<>> rows_not_given(const CLI::App& app) {
  std::set<std::string, std::less<>> out;
  for (const Change& change : changes())
    if (!change.machine && !is_given(app, fmt::format("--{}", change.name))) out.insert(std::string(change.name));
  return out;
}

/// Takes what the files say of the data, in the sequences that batches are padded to.
void take_data(const CLI::App& app, const ConfigReading& configs, PlanQuestion& question) {
  SettledData data = settle_configs(app, configs, question.request, question.notes);
  question.has_rows = data.has_rows;
  question.data_words = std::move(data.words);
  bound_by(std::move(data.lengths), question);
}

PlanQuestion read_question(const CLI::App& app, std::istream& in, std::string_view usual_framework, Needed needed,
                           const std::optional<ConfigReading>& reading = {}) {
  check_contradictions(app);
  PlanQuestion question;
  const auto given_method = given(app, "--method");
  const auto [method, searched] = given_method ? words_of_method(*given_method) : MethodWords{};
  if (needed.method && searched)
    throw InputError("--method", fmt::format("'{}' says how a model is trained, and not for what", *searched),
                     fmt::format("--{}", *searched == "any" ? "lora or --full" : *searched));
  EstimateRequest& request = question.request;
  const auto model = given(app, "--model"), named = given(app, "plan");
  const auto behind_model = model ? plan_behind_model(*model, in) : std::nullopt;
  if (behind_model && named)
    throw InputError("", fmt::format("two plans are given: {} and {}", *named, *model), "give one");
  auto plan = named ? read_named_plan(*named, in) : behind_model;
  if (plan && reading && reading->plan)
    throw InputError("", fmt::format("two plans are given: {} and {}", plan->where, reading->plan->name), "give one");
  if (!plan) plan = plan_of(reading ? &*reading : nullptr);
  // a log beside a plan says nothing of the plan
  const bool has_settings = reading && !reading->plan && reading->has_files;
  const ConfigReading* const configs = has_settings ? &*reading : nullptr;
  if (plan && configs)
    throw InputError("--from", fmt::format("{} is a plan and says everything already", plan->where),
                     "give one of them");
  if (plan) {
    request = parse_plan(plan->content, plan->where);
    question.carried = carried_by(plan->content);
    question.set_up = set_up_of(plan->content);
    if (question.carried && is_given(app, "--seq-len"))
      question.carried = std::make_shared<const CarriedSettings>(without_length(*question.carried));
    const std::string overrides = overrides_of(app, behind_model.has_value());
    question.notes.push_back(overrides.empty() ? fmt::format("plan from {}", plan->where)
                                               : fmt::format("plan from {}, changed by {}", plan->where, overrides));
  } else if (configs) {
    request = configs->request;
    question.carried = configs->carried;
  } else {
    const auto framework = given(app, "--framework");
    const std::string_view usual_of_method = method ? std::string_view(find_training_method(*method).framework) : "";
    request.recipe.framework = framework_named(framework                  ? std::string_view(*framework)
                                               : !usual_of_method.empty() ? usual_of_method
                                                                          : usual_framework);
  }
  if (reading) question.notes.insert(question.notes.end(), reading->notes.begin(), reading->notes.end());
  std::int64_t gpus_of_plan = plan ? num_gpus_in_all(request) : 0;
  const StackVersions planned = plan ? request.recipe.framework->versions : StackVersions{};
  for (const PlanFlag& flag : plan_flags())
    if (const auto value = given(app, flag.name); value && flag.apply) flag.apply(request, *value);
  set_versions(app, request, planned);
  check_zero_flags(app, *request.recipe.framework);
  if (model && !behind_model) set_model(question, *model, given_hub(app));
  set_other_models(app, question);
  const bool states_sizes = configs && !configs->model_config.empty();
  if (states_sizes && !model) set_stated_model(question, *configs);
  if (configs && !model && !states_sizes && (configs->model || needed.model))
    load_named_model(*configs, [&](const std::string& its) { set_model(question, its, given_hub(app)); });
  if (configs) set_named_models(app, question, *configs);
  std::ranges::move(settle_stack(request), std::back_inserter(question.notes));
  if (!plan && !configs && !is_given(app, "--optimizer"))
    request.recipe.optimizer = request.recipe.framework->default_optimizer;
  if (auto cluster = given_machine(app)) request.cluster = std::move(*cluster), gpus_of_plan = 0;
  set_given_host(app, request.cluster);
  const bool is_complete = plan || (configs && configs->has_trainer);
  if (!plan) check_complete(app, question, needed, is_complete || (configs && configs->has_method));
  const GivenGpus have{.of_plan = gpus_of_plan, .are_divided = !is_given_here(app, "--generate")};
  question.caveat = settle_gpus(app, configs, have, request, question.notes);
  if (!question.caveat.empty()) question.notes.push_back(question.caveat);
  question.has_rows = plan || says_rows(app);
  if (configs) take_data(app, *configs, question);
  if (!is_complete && !request.recipe.objective.method.is_usual() && !is_given(app, "--packing"))
    request.recipe.packing = Packing::Dynamic;  // trainers pad answers to the longest of a batch, and few pack them
  if (!is_complete) {
    set_defaults(app, question);
    set_length(app, question);
  }
  if (!plan && !is_given_here(app, "--generate")) set_rollout(app, question, configs != nullptr);
  if (!plan && !(configs && configs->setup.seq_len)) fit_positions(app, question);
  if (!plan && !configs) request.not_given.rows = rows_not_given(app);
  set_rows(app, question);
  const bool says_precision =
      configs && !configs->setup.precision_by_card &&
      (configs->has_trainer || configs->setup.mixed_precision || configs->setup.bf16 || configs->setup.fp16);
  if (!plan && !says_precision && !is_given(app, "--precision")) set_precision(question);
  if (request.eval_batch * request.recipe.seq_len > kMostBatchTokens)
    throw InputError("--eval-batch", "evaluation batch times sequence length exceeds 2^32 tokens");
  if (!request.model.family.empty()) check_teacher(request);
  note_long_rows(question);
  note_flags_without_effect(app, question);
  set_profile(app, question);
  return question;
}

}  // namespace

void bound_by(RowLengths rows, PlanQuestion& question) {
  const std::int64_t before = question.request.recipe.seq_len;
  bound_sequences(question.request, rows, question.notes);
  if (question.request.recipe.seq_len < before) question.stated_seq_len = before;
  question.rows = std::move(rows);
}

void set_choice(const CLI::App& app, EstimateRequest& request) {
  request.not_given.are_chosen = !is_given(app, "--as-given") && !request.not_given.rows.empty();
  const auto quality = given(app, "--quality");
  if (!quality) return;
  request.not_given.least_quality = parse_name<Quality>(*quality, "--quality");
  if (quality_of(request.recipe) < *request.not_given.least_quality)
    throw InputError("--quality",
                     fmt::format("what is asked for is of quality {}", to_string(quality_of(request.recipe))),
                     "leave one of them out");
}

PlanQuestion read_plan_question(const CLI::App& app, std::istream& in, std::string_view usual_framework) {
  PlanQuestion question = read_question(app, in, usual_framework, {});
  set_global_batch(app, question.request);
  return question;
}

PlanQuestion read_config_question(const CLI::App& app, std::istream& in, const std::optional<ConfigReading>& configs) {
  PlanQuestion question = read_question(app, in, kUsualFramework, {}, configs);
  set_global_batch(app, question.request);
  return question;
}

PlanQuestion read_open_question(const CLI::App& app, std::istream& in, bool needs_model,
                                const std::optional<ConfigReading>& configs) {
  return read_question(app, in, kUsualFramework, {.model = needs_model, .machine = false, .method = false}, configs);
}

}  // namespace gpuplan
