// docs/schemas are made of the listings that the answers are made of. GPUPLAN_UPDATE_GOLDEN=1 rewrites the files.
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/files.h"
#include "base/json_file.h"
#include "cli/arguments.h"
#include "execute/run_fields.h"
#include "golden/command_line.h"
#include "report/json/catalogue_fields.h"
#include "report/json/diagnosis_fields.h"
#include "report/json/estimate_fields.h"
#include "report/json/generation_fields.h"
#include "report/json/machine_check_fields.h"
#include "report/json/plan_fields.h"
#include "report/json/profile_fields.h"
#include "report/json/simulation_fields.h"
#include "report/json/validation_fields.h"
#include "schemas/schema_writer.h"
#include "schemas/schemas.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;
using test::SchemaWriter;

/// On one line, with spaces as people put them.
std::string line_of(const OrderedJson& value) {
  std::string out;
  const auto add = [&](const std::string& item) { out += (out.empty() ? "" : ", ") + item; };
  if (value.is_object())
    for (const auto& [key, item] : value.items()) add(fmt::format("{}: {}", OrderedJson(key).dump(), line_of(item)));
  else if (value.is_array())
    for (const OrderedJson& item : value) add(line_of(item));
  else
    return value.dump();
  return value.is_object() ? "{" + out + "}" : "[" + out + "]";
}

/// With a line for each key, where one line is too short for all.
std::string text_of(const OrderedJson& value, std::size_t indent = 0) {
  constexpr std::size_t kMostColumns = 140;
  const std::string line = line_of(value);
  if (indent + line.size() <= kMostColumns || !value.is_structured()) return line;
  std::string out, margin(indent + 2, ' ');
  for (const auto& [key, item] : value.items())
    out += fmt::format("{}{}{}{}", out.empty() ? "" : ",\n", margin,
                       value.is_object() ? OrderedJson(key).dump() + ": " : std::string(), text_of(item, indent + 2));
  const std::string end(indent, ' ');
  return value.is_object() ? fmt::format("{{\n{}\n{}}}", out, end) : fmt::format("[\n{}\n{}]", out, end);
}

template <class List>
OrderedJson schema(const char* command, const char* description, List list) {
  SchemaWriter out;
  list(out);
  return out.take(fmt::format("gpuplan {} --json", command), description);
}

/// The schemas by the names of their files.
std::map<std::string, OrderedJson> schemas_of_today() {
  const ClusterSpec cluster = parse_gpus("1xA6000");
  const Topology topology;
  return {
      {"estimate",
       schema("estimate", "Whether a plan fits, its speed and its cost, for every strategy that was asked for.",
              [](SchemaWriter& f) { list_estimate(f, EstimateAnswer{}, OrderedJson::object()); })},
      {"generate", schema("estimate --generate", "An engine that answers prompts: whether it fits and how fast it is.",
                          [](SchemaWriter& f) { list_generation(f, GenerationAnswer{}); })},
      {"diagnose", schema("diagnose", "A measured run beside the predicted one, and what explains the gap.",
                          [](SchemaWriter& f) { list_diagnosis(f, DiagnosisAnswer{}); })},
      {"doctor", schema("doctor", "What this machine has, and what on it stands in the way of training faster.",
                        [](SchemaWriter& f) { list_machine_check(f, MachineCheck{}); })},
      {"simulate", schema("simulate", "One optimizer step of the chosen strategy, simulated.",
                          [](SchemaWriter& f) { list_simulation(f, SimulationAnswer{}); })},
      {"plan", schema("plan", "The plans worth a choice, the recommended one first.",
                      [](SchemaWriter& f) { list_plan(f, PlanAnswer{}); })},
      {"plan-largest",
       schema("plan --largest", "The models of the catalogue that could be trained on a machine, by context.",
              [](SchemaWriter& f) { list_largest(f, LargestTable{}, ""); })},
      {"topology",
       schema("topology",
              "What hangs where in a machine. Vertices and links are counted from 0, in the order of their lists.",
              [&](SchemaWriter& f) {
                list_topology(f, TopologyAnswer{cluster, topology, {}});
              })},
      {"gpus", schema("gpus", "GPUs of the catalogue.", [](SchemaWriter& f) { list_gpus(f, {}); })},
      {"models", schema("models", "Models of the catalogue; of one model also its shape and tensors.",
                        [](SchemaWriter& f) { list_models(f, {}, true); })},
      {"profiles", schema("profiles", "Profiles of this user, the newest first, and the shipped ones.",
                          [](SchemaWriter& f) { list_fields(f, ProfileList{}); })},
      {"profile", schema("profiles show ID --json, and gpuplan calibrate",
                         "One profile; of a calibrated machine also what was measured.",
                         [](SchemaWriter& f) { list_fields(f, Profile{}); })},
      {"profiles-compare", schema("profiles compare ID ID", "The numbers of two profiles beside each other.",
                                  [](SchemaWriter& f) { list_compared(f, {}, {}, {}); })},
      {"validate", schema("validate",
                          "Every point and the summary. Memory is in GiB, speed in the point's own unit; errors "
                          "are predicted / measured - 1.",
                          [](SchemaWriter& f) { list_fields(f, ValidationAnswer{}); })},
      {"validate-phases", schema("validate, of points that are lines of flags",
                                 "Measured steps and phases of methods that generate, beside what is predicted.",
                                 [](SchemaWriter& f) { list_phase_points(f, {}); })},
      {"run", schema("run",
                     "The report of a run by gpuplan's own executor: what was predicted before it and measured in "
                     "it, of rank 0.",
                     [](SchemaWriter& f) { list_run(f, RunReport{}); })},
      {"run-engine", schema("run --engine ENGINE",
                            "The report of a run by another program's engine: what was predicted before it and "
                            "measured in it.",
                            [](SchemaWriter& f) { list_engine_run(f, EngineReport{}); })},
      {"run-dry", schema("run --engine ENGINE --dry-run",
                         "What an engine would be started with, or why this engine cannot train the plan (exit "
                         "code 1): then without files, commands and checks.",
                         [](SchemaWriter& f) { list_dry_run(f, {}, {}, {}, {}); })}};
}

/// A question, and the schema of its answer as JSON; answers of other files and settings: tests/questions/laws.cpp.
struct AskedForJson {
  std::string line;
  const char* schema;
  const char* behind = "";  // a program of the user's
};
const std::vector<AskedForJson>& asked_for_json() {
  static const std::string plan = "--model smollm2-135m --gpus 2xA6000";
  static const std::vector<AskedForJson> kAsked{
      {"estimate " + plan, "estimate"},
      {"estimate --model qwen2.5-0.5b --gpus 2xA6000 --lora --method grpo --rollout-engine vllm", "estimate"},
      {"estimate --model qwen2.5-0.5b --gpus 2xA6000 --lora --method dpo --explain", "estimate"},
      {"estimate --generate " + plan, "generate"},
      {"estimate --generate --model llama-3-70b --gpus 1xA6000", "generate"},  // does not fit
      {"estimate --generate --model llama-3-8b --gpus 4xH100 --completion-len 400,1024 --generations 8", "generate"},
      {"diagnose " + plan + " --measured 1.2s", "diagnose"},
      {"doctor", "doctor"},
      {"simulate " + plan, "simulate"},
      {"simulate " + plan + " --strategy fsdp --straggler 0=1.2", "simulate"},
      {"plan " + plan, "plan"},
      {"plan --gpus 1xA6000 --largest", "plan-largest"},
      {"topology --gpus 8xH100", "topology"},
      {"gpus", "gpus"},
      {"gpus A6000", "gpus"},
      {"models", "models"},
      {"models --show smollm2-135m", "models"},
      {"profiles", "profiles"},
      {"profiles show default-ampere", "profile"},
      {"profiles show l40s-20261120-0900", "profile"},
      {"profiles compare l40s-20261120-0900 l40s-20261121-1730", "profiles-compare"},
      {"validate inputs/points.jsonl", "validate"},
      {"validate ../../data/validation/rl_steps.jsonl", "validate-phases"},
      {"run ../planner/plans/0.1.0/lora_ddp.json --engine torchrun --dry-run", "run-dry", " -- train.py"}};
  return kAsked;
}

}  // namespace

TEST_CASE("every answer in JSON has a schema, and obeys it") {
  const fs::path before = fs::current_path();
  fs::current_path(fs::path(GPUPLAN_TEST_DIR) / "golden");
  const test::Variable profiles("GPUPLAN_PROFILE_DIR", "inputs/profiles");
  std::set<std::string> commands, schemas;
  for (const AskedForJson& asked : asked_for_json()) {
    CAPTURE(asked.line);
    const test::Ran ran = test::run_line(asked.line + " --json" + asked.behind);
    CHECK_MESSAGE(ran.code < 2, ran.err);
    if (ran.code < 2) CHECK(test::schema_problem(asked.schema, parse_json(ran.out, "answer")) == "");
    commands.insert(asked.line.substr(0, asked.line.find(' ')));
    schemas.insert(asked.schema);
  }
  fs::current_path(before);
  for (const auto& [name, schema] : schemas_of_today())  // of what is trained: tests/run_program
    CHECK_MESSAGE((schemas.contains(name) || name == "run" || name == "run-engine"), name);
  CLI::App app;
  declare_commands(app);
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (command->get_option_no_throw("--json"))
      CHECK_MESSAGE((commands.contains(command->get_name()) || command->get_name() == "calibrate"),
                    command->get_name());  // whose answer is that of `profiles show`
}

TEST_CASE("docs/schemas is what the listings of the answers say, and nothing else") {
  const fs::path folder = fs::path(GPUPLAN_TEST_DIR).parent_path() / "docs/schemas";
  const std::string page = read_file(folder / "README.md");
  const std::map<std::string, OrderedJson> schemas = schemas_of_today();
  for (const auto& [name, schema] : schemas) {
    const fs::path file = folder / (name + ".schema.json");
    const std::string text = text_of(schema) + "\n";
    if (test::is_updating()) write_file_atomically(file, text);
    CHECK_MESSAGE(read_file(file) == text, name);
    CHECK_MESSAGE(page.find(fmt::format("`{}`", file.filename().string())) != std::string::npos, name);
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    CHECK_MESSAGE((name == "README.md" || schemas.contains(name.substr(0, name.find('.')))), name);
  }
}

}  // namespace gpuplan
