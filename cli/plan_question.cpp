// From the flags that were given to a request: what contradicts what, the plan file below them, model and machine.
#include <array>
#include <filesystem>
#include <istream>
#include <iterator>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "cli/arguments.h"
#include "cli/machine_flags.h"
#include "cli/plan_flags.h"
#include "cluster/profile/profile_store.h"
#include "models/catalogue.h"
#include "models/framework.h"
#include "planner/plan/plan_file.h"

namespace gpuplan {
namespace {

using nlohmann::json;

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
    Pair{"--gpus", "--cluster", "one of them says what the plan runs on"},
    Pair{"--gpus", "--num-gpus", "--gpus says how many: --gpus 4xA6000"}};

void check_contradictions(const CLI::App& app) {
  for (const Pair& pair : kContradictions)
    if (is_given(app, pair.one) && is_given(app, pair.other))
      throw InputError("", fmt::format("{} and {} contradict each other", pair.one, pair.other), pair.hint);
  if (is_given(app, "--num-gpus") && !is_given(app, "--cluster"))
    throw InputError("--num-gpus", "needs --cluster", "or --gpus with a number, as in --gpus 4xA6000");
}

struct PlanText {
  std::string where;
  json content;
};

PlanText read_stdin(std::istream& in) {
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return {"standard input", parse_json(text, "standard input")};
}

bool is_plan(const json& content) { return content.is_object() && content.contains("schema_version"); }

/// The positional argument, which must be a plan.
PlanText read_named_plan(const std::string& name, std::istream& in) {
  std::error_code ignored;
  if (name != "-" && !name.ends_with(".json") && !std::filesystem::exists(name, ignored))
    throw InputError(
        "", fmt::format("unexpected argument '{}'", name),
        fmt::format("a model is given as --model {}, a plan as a .json file", name.empty() ? "NAME" : name));
  PlanText plan = name == "-" ? read_stdin(in) : PlanText{name, read_json_file(name)};
  if (!is_plan(plan.content))
    throw InputError(plan.where, "is not a plan: it has no schema_version",
                     fmt::format("a model's config is given as --model {}", name));
  return plan;
}

/// A plan may also stand after --model; then it names the model too.
std::optional<PlanText> plan_behind_model(const std::string& model, std::istream& in) {
  if (model == "-") return read_named_plan(model, in);
  std::error_code ignored;
  if (!model.ends_with(".json") || !std::filesystem::is_regular_file(model, ignored)) return {};
  PlanText plan{model, read_json_file(model)};
  if (!is_plan(plan.content)) return {};
  return plan;
}

/// The flags that were given beside the plan, as they were written.
std::string overrides_of(const CLI::App& app, bool model_is_plan) {
  std::string text;
  for (const PlanFlag& flag : plan_flags()) {
    const auto value = given(app, flag.name);
    if (!value || (model_is_plan && std::string_view(flag.name) == "--model")) continue;
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", flag.name, value->empty() ? "" : " ", *value);
  }
  return text;
}

void set_model(PlanQuestion& question, const std::string& model) {
  LoadedModel loaded = load_model(model);
  question.request.model = std::move(loaded.spec);
  for (std::string& note : loaded.notes) question.notes.push_back(std::move(note));
}

/// Without a plan, what it would have said.
void check_complete(const CLI::App& app, PlanQuestion& question) {
  if (!is_given(app, "--model"))
    throw InputError("--model", "is needed", "for example --model llama3-8b; 'gpuplan models' lists them");
  if (question.request.cluster.gpus.empty())
    throw InputError("--gpus", "is needed", "for example --gpus 4xA6000, --gpus local, or --cluster dgx-h100");
  if (!is_given(app, "--full") && !is_given(app, "--lora") && !is_given(app, "--qlora"))
    question.notes.push_back("full fine-tuning, as neither --lora nor --qlora is given");
}

void set_profile(const CLI::App& app, PlanQuestion& question) {
  const auto named = given(app, "--profile");
  EstimateRequest& r = question.request;
  if (!named) {
    r.profile = profile_for(r.cluster, question.notes);
  } else if (*named != "default") {
    r.profile = find_profile(*named);
    if (r.profile->measured && !is_for(*r.profile, r.cluster))
      question.notes.push_back(fmt::format("profile {} was measured on {}, not on {}", r.profile->id,
                                           r.profile->measured->on.device, r.cluster.gpus.front().name));
  }
}

}  // namespace

PlanQuestion read_plan_question(const CLI::App& app, std::istream& in) {
  check_contradictions(app);
  PlanQuestion question;
  EstimateRequest& request = question.request;
  const auto model = given(app, "--model"), named = given(app, "plan");
  const auto behind_model = model ? plan_behind_model(*model, in) : std::nullopt;
  if (behind_model && named)
    throw InputError("", fmt::format("two plans are given: {} and {}", *named, *model), "give one");
  const auto plan = named ? read_named_plan(*named, in) : behind_model;
  if (plan) {
    request = parse_plan(plan->content, plan->where);
    const std::string overrides = overrides_of(app, behind_model.has_value());
    question.notes.push_back(overrides.empty() ? fmt::format("plan from {}", plan->where)
                                               : fmt::format("plan from {}, changed by {}", plan->where, overrides));
  } else if (const auto framework = given(app, "--framework")) {
    request.recipe.framework = find_framework(*framework).name;
  }
  if (!plan) request.recipe.optimizer = find_framework(request.recipe.framework).default_optimizer;
  for (const PlanFlag& flag : plan_flags())
    if (const auto value = given(app, flag.name); value && flag.apply) flag.apply(request, *value);
  if (model && !behind_model) set_model(question, *model);
  if (auto cluster = given_machine(app)) request.cluster = std::move(*cluster);
  if (!plan) check_complete(app, question);
  set_profile(app, question);
  return question;
}

}  // namespace gpuplan
