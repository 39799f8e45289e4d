#include "questions/random_question.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/arguments.h"
#include "ecosystem/export.h"
#include "models/recipe_names.h"
#include "questions/plan_questions.h"

namespace gpuplan::test {
namespace {

void add_some(Question& q, Chances& chances, std::size_t how_often, const std::string& name, const Values& values) {
  if (chances.one_in(how_often)) q.flags.push_back({name, chances.pick(values)});
}
void add_some(Question& q, Chances& chances, std::size_t how_often, const std::string& name) {
  if (chances.one_in(how_often)) q.flags.push_back({name, ""});
}

void ask_estimate(Question& q, Chances& chances) {
  if (chances.one_in(12)) {
    q.flags.push_back({"--from", fmt::format("example{}.yaml", chances.below(kNumExamples)), true});
    add_machine(q, chances);
    add_some(q, chances, 2, "--model", {random_model(chances)});
  } else {
    add_plan(q, chances);
  }
  add_some(q, chances, 12, "--lengths", {"lengths.txt"});
  add_some(q, chances, 16, "--data", {"rows.jsonl"});
  add_some(q, chances, 4, "--explain");
  add_some(q, chances, 4, "--details");
  add_some(q, chances, 3, "--as-given");
  add_some(q, chances, 12, "--quality", {"ok", "good"});
  add_some(q, chances, 8, "--save", {"saved.json"});
}

void ask_simulate(Question& q, Chances& chances) {
  add_plan(q, chances);
  add_simulation(q, chances);
  add_some(q, chances, 3, "--as-given");
}

void ask_plan(Question& q, Chances& chances) {
  q.flags.push_back({"--model", random_model(chances), true});
  add_machine(q, chances);  // all that can be rented is a search of half a minute
  if (chances.one_in(2)) add_method(q, chances);
  if (chances.one_in(2)) add_recipe(q, chances);
  add_some(q, chances, 4, "--method", {"any", "full", "lora", "qlora"});
  add_some(q, chances, 6, "--quality", {"best", "good", "ok"});
  add_some(q, chances, 3, "--rows", {"1000", "50000"});
  add_some(q, chances, 4, "--global-batch", {"1", "32", "65536"});
  add_some(q, chances, 4, "--under", {"1h", "6h", "3d"});
  add_some(q, chances, 4, "--budget", {"1", "100", "$1e6"});
  add_some(q, chances, 4, "--min", {"gpus", "cost", "time"});
  add_some(q, chances, 6, "--max", {"context", "batch"});
  add_some(q, chances, 6, "--top", {"1", "10"});
  add_some(q, chances, 6, "--overhead", {"0s", "1h"});
  add_some(q, chances, 8, "--html", {"plan.html"});
  add_some(q, chances, 8, "--save", {"saved.json"});
}

void ask_export(Question& q, Chances& chances) {
  add_plan_file(q, chances);
  static const Values kTargets = export_targets();
  q.flags.push_back({"--for", chances.pick(kTargets), true});
  add_some(q, chances, 4, "--versions",
           {"accelerate=1.5,torch=2.5", "torch=2.1", "transformers=4.40", "accelerate=0.1"});
  if (chances.one_in(2)) {
    q.flags.push_back({"--output", "exported"});
    q.flags.push_back({"--force", ""});
  }
}

void ask_topology(Question& q, Chances& chances) {
  add_machine(q, chances);
  if (chances.one_in(2)) {
    q.flags.push_back({"--from", chances.pick(Values{"0", "1", "3"})});
    q.flags.push_back({"--to", chances.pick(Values{"0", "1", "7", "63"})});
  }
  add_some(q, chances, 3, "--svg", {"machine.svg"});
}

void ask_models(Question& q, Chances& chances) {
  switch (chances.below(3)) {
    case 0: q.flags.push_back({"", chances.pick(Values{"qwen2.5", "llama", "8b", "moe", "gemma-3", "nothing"})}); break;
    case 1: q.flags.push_back({"", random_model(chances)}); break;
    default: q.flags.push_back({"--show", random_model(chances)});
  }
}

void ask_gpus(Question& q, Chances& chances) {
  const Values queries{"hopper", "A6000", "nvidia", "amd", "4090", "x", "nothing", "H100"};
  if (!chances.one_in(6)) q.flags.push_back({"", chances.pick(queries)});
}

void ask_profiles(Question& q, Chances& chances) {
  const Values ids{"default-hopper", "default-ampere", "default-cpu", "default-consumer-pcie", "default"};
  const std::string action = chances.pick(Values{"list", "show", "compare", "export"});
  q.flags.push_back({"", action, true});
  if (action != "list") q.flags.push_back({"", chances.pick(ids), true});
  if (action == "compare") q.flags.push_back({"", chances.pick(ids), true});
  if (action == "show") add_some(q, chances, 3, "--plots");
  if (action == "export") {
    add_some(q, chances, 2, "--format", {"yaml", "json", "csv", "svg"});
    add_some(q, chances, 3, "--output", {"profile.yaml", "profile.json", "-"});
  }
}

void ask_validate(Question& q, Chances& chances) {
  q.flags.push_back({"", "points.jsonl", true});
  add_some(q, chances, 2, "--by", {"source", "method", "strategy"});
  add_some(q, chances, 3, "--worst", {"0", "1", "1000000"});
  add_some(q, chances, 3, "--network", {"flow", "analytic"});
  add_some(q, chances, 3, "--picks");
  add_some(q, chances, 4, "--report", {"report.md"});
  add_some(q, chances, 4, "--save-ranges", {"ranges.json"});
}

void ask_completion(Question& q, Chances& chances) {
  q.flags.push_back({"", chances.pick(Values{"bash", "zsh", "fish", "man"}), true});
}

/// Nothing is started: neither weights nor a device are asked for.
void ask_run(Question& q, Chances& chances) {
  add_plan_file(q, chances);
  q.flags.push_back({"--engine", chances.pick(Values{"accelerate", "torchrun", "deepspeed", "slurm"}), true});
  q.flags.push_back({"--dry-run", "", true});
  add_some(q, chances, 3, "--hosts", {"hosts.txt"});
  add_some(q, chances, 3, "--port", {"1", "29500", "65535"});
  add_some(q, chances, 4, "--job", {"job"});
  add_some(q, chances, 4, "--max-steps", {"1", "1000"});
  q.flags.push_back({"--data", "rows.jsonl", true});
}

struct Kind {
  const char* command;
  std::size_t weight;
  void (*ask)(Question&, Chances&);
  bool has_json = true;
};
constexpr std::array kKinds{Kind{"estimate", 1000, ask_estimate},
                            Kind{"simulate", 280, ask_simulate},
                            Kind{"plan", 1, ask_plan},  // a search takes as long as eighty estimates
                            Kind{"export", 80, ask_export, false},
                            Kind{"topology", 80, ask_topology},
                            Kind{"models", 32, ask_models},
                            Kind{"gpus", 16, ask_gpus},
                            Kind{"profiles", 24, ask_profiles},
                            Kind{"validate", 8, ask_validate},
                            Kind{"completion", 8, ask_completion, false},
                            Kind{"run", 32, ask_run}};

const Kind& random_kind(Chances& chances) {
  std::size_t all = 0;
  for (const Kind& kind : kKinds) all += kind.weight;
  std::size_t at = chances.below(all);
  for (const Kind& kind : kKinds) {
    if (at < kind.weight) return kind;
    at -= kind.weight;
  }
  return kKinds.front();
}

/// Flags of the command that take a value; none that trains, measures, or asks the network.
const Values& valued_flags(const std::string& command) {
  static const std::set<std::string> kNot{"--engine", "--refresh", "--dry-run", "--init", "--adapter"};
  static std::map<std::string, Values> known;
  Values& names = known[command];
  if (!names.empty()) return names;
  CLI::App app;
  declare_commands(app);
  for (const CLI::Option* option : app.get_subcommand(command)->get_options())
    for (const std::string& name : option->get_lnames())
      if (option->get_items_expected_max() > 0 && !kNot.contains("--" + name)) names.push_back("--" + name);
  return names;
}

/// What the file system may refuse.
const Values& wrong_paths() {
  static const Values kPaths{"missing/folder/file", "/proc/nothing",      ".", "/", "/dev/full",
                             "/dev/null",           std::string(300, 'n')};
  return kPaths;
}

std::string wrong_value(Chances& chances) {
  if (chances.one_in(4)) return chances.pick(wrong_paths());
  static const Values kWrong{"0",
                             "-1",
                             "1.5",
                             "1e3",
                             "nan",
                             "inf",
                             "1e308",
                             "1e-308",
                             "9223372036854775807",
                             "9223372036854775808",
                             "-9223372036854775808",
                             "18446744073709551616",
                             "abc",
                             "a=b",
                             "=",
                             ",",
                             ",,",
                             "1,",
                             "x=1,y=2",
                             "0=1.2",
                             "gemm=0",
                             "memory=1e-9",
                             "1h",
                             "1e9s",
                             "-5ms",
                             "1GiB",
                             "0x10",
                             "1xA6000",
                             "99999999999xA6000",
                             "0xA6000",
                             "1xcpu,1xA6000",
                             "\x1b[31mred",
                             "é",
                             "\xff\xfe",
                             "a b",
                             "'",
                             "<b>&\"",
                             "%s%n",
                             "{}",
                             "--json",
                             "-",
                             "~",
                             "lora.json",
                             "lengths.txt",
                             "every=0",
                             "size:0",
                             "chunked=0",
                             "r=0",
                             "r=1000000000",
                             "optimizer:nvme"};
  return chances.pick(kWrong);
}

void spoil(Question& q, Chances& chances) {
  const Values& names = valued_flags(q.command);
  const std::string name = names.empty() ? "" : chances.pick(names), value = wrong_value(chances);
  for (GivenFlag& flag : q.flags) {
    if (flag.name != name) continue;
    flag.value = value;
    return;
  }
  q.flags.push_back({name, value});
}

}  // namespace

bool asks_too_much_of_files(const Question& question) {
  const Values& paths = wrong_paths();
  return std::any_of(question.flags.begin(), question.flags.end(), [&](const GivenFlag& flag) {
    const auto is_it = [&](const QuestionFile& file) { return flag.value == file.name; };
    const bool wants_folder = flag.name == "--output" || flag.name == "--job";
    return (wants_folder && std::any_of(question_files().begin(), question_files().end(), is_it)) ||
           std::find(paths.begin(), paths.end(), flag.value) != paths.end();
  });
}

Question random_question(std::uint64_t seed, std::uint64_t number) {
  Chances chances(seed * 0x9E3779B97F4A7C15ULL + number);
  Question q;
  q.number = number;
  const Kind& kind = random_kind(chances);
  q.command = kind.command;
  kind.ask(q, chances);
  if (kind.has_json && !chances.one_in(3)) q.flags.push_back({"--json", ""});
  if (chances.one_in(10)) spoil(q, chances);
  return q;
}

}  // namespace gpuplan::test
