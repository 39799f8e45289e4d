#include "base/environment.h"
#include "execute/commands.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include "base/child_process.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "base/narrow.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "cli/arguments.h"
#include "cli/exported_files.h"
#include "cli/flag_ranges.h"
#include "cli/plan_question.h"
#include "ecosystem/emit.h"
#include "ecosystem/engine_job.h"
#include "ecosystem/out_of_memory.h"
#include "execute/run_fields.h"
#include "execute/run_text.h"
#include "planner/plan/plan_file.h"
#include "report/answers.h"
#include "run/engine_output.h"
#include "run/engine_report.h"
#include "run/preflight.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr const char *kNative = "native", *kUsualFolder = "gpuplan-job";
constexpr int kUsualPort = 29500;

/// Flags of gpuplan's own executor that the shipped scripts know too, or do not.
struct ScriptFlag {
  const char *flag, *option;
  bool torch, sft;  // which script has it
};
constexpr std::array kScriptFlags{ScriptFlag{"--data", "--data", true, true},
                                  ScriptFlag{"--output", "--output", true, true},
                                  ScriptFlag{"--max-steps", "--max-steps", true, true},
                                  ScriptFlag{"--lr", "--lr", true, true},
                                  ScriptFlag{"--weight-decay", "--weight-decay", true, true},
                                  ScriptFlag{"--clip", "--clip", true, true},
                                  ScriptFlag{"--seed", "--seed", true, true},
                                  ScriptFlag{"--warmup", "--warmup", false, true},
                                  ScriptFlag{"--schedule", "--schedule", false, true}};
constexpr std::array kNativeFlags{"--token-dtype", "--adapter", "--no-shuffle", "--save-every",    "--keep",
                                  "--resume",      "--metrics", "--trace",      "--no-cuda-graphs"};

/// Returns the words behind "--".
Words script_of(const Console& console) {
  const auto& all = console.arguments;
  const auto dashes = std::find(all.begin(), all.end(), "--");
  return dashes == all.end() ? Words{} : Words(dashes + 1, all.end());
}

/// Command of a launcher on this machine, and the Python that it starts.
struct FoundLauncher {
  Words words;
  std::string python = "python3", program;  // program: empty where it is not here
};

struct LauncherNames {
  const char *engine, *program, *module;
};
constexpr std::array kLaunchers{LauncherNames{"accelerate", "accelerate", "accelerate.commands.accelerate_cli"},
                                LauncherNames{"torchrun", "torchrun", "torch.distributed.run"},
                                LauncherNames{"deepspeed", "deepspeed", "deepspeed.launcher.runner"},
                                LauncherNames{"slurm", "sbatch", nullptr}};

FoundLauncher find_launcher(const std::string& engine) {
  const auto* names =
      std::find_if(kLaunchers.begin(), kLaunchers.end(), [&](const auto& row) { return row.engine == engine; });
  FoundLauncher found{.words = {names->program}, .program = find_program(names->program)};
  if (!found.program.empty()) {
    found.words = {found.program};
    if (const std::string python = interpreter_of(found.program); !python.empty()) found.python = python;
    return found;
  }
  const std::string package = engine == "torchrun" ? "torch" : engine;
  if (!names->module || python_packages(found.python, {package}).empty()) return found;
  found.program = find_program(found.python);
  found.words = {found.python, "-m", names->module};
  return found;
}

/// The question, what was found, and the plan as files and commands.
struct EngineAsk {
  PlanQuestion plan;
  EstimateResult result;
  const StrategyEstimate* chosen = nullptr;
  EngineQuestion question;
  FoundLauncher launcher;
  std::map<std::string, std::string> packages;
  EngineJob job;
  std::vector<Check> checks;

  bool is_local() const { return question.hosts.empty() && question.engine != "slurm"; }
};

PlanMark mark_of(const CLI::App& app, const EngineAsk& ask) {
  if (const auto file = given(app, "plan"); file && *file != "-")
    return {.file = *file, .sha256 = sha256_hex(read_file(*file))};
  return {.file = "the command line", .sha256 = sha256_hex(ask.plan.request.model.name)};
}

/// The folder of the model, where it is one: a plan keeps the path that --model was given.
std::optional<fs::path> model_folder_of(const EstimateRequest& request) {
  for (fs::path source : {fs::path(request.model.source), fs::path(request.model.id)}) {
    if (source.filename() == "config.json") source = source.parent_path();
    if (!source.empty() && is_file(source / "config.json")) return absolute_path(source);
  }
  return std::nullopt;
}

Words script_options(const CLI::App& app, const EngineAsk& ask) {
  const bool is_torch = uses_torch_script(ask.question, ask.plan.request.recipe.framework->name);
  for (const char* flag : kNativeFlags)
    if (is_given(app, flag))
      throw InputError(flag, "is of gpuplan's own executor", "leave --engine out, or train with a script behind --");
  Words out;
  const auto folder = model_folder_of(ask.plan.request);
  if (folder) out = {"--model", folder->string()};
  if (is_torch && !folder && !is_given(app, "--init"))
    throw InputError(
        "--model",
        fmt::format("{} is known by its shape, and there are no weights to train", ask.plan.request.model.name),
        "give the folder of the model, or --init random to measure");
  if (is_given(app, "--init") && !is_torch)
    throw InputError("--init", "random weights are of gpuplan's own executor and of the script of plain PyTorch",
                     "--engine native");
  if (is_given(app, "--init")) out.emplace_back("--random");
  for (const ScriptFlag& row : kScriptFlags) {
    const auto value = given(app, row.flag);
    if (!value) continue;
    if (!(is_torch ? row.torch : row.sft))
      throw InputError(row.flag, "is not known to the script of plain PyTorch, whose learning rate is constant",
                       "leave it out, or train with a script behind --");
    const bool is_path = std::string_view(row.flag) == "--data" || std::string_view(row.flag) == "--output";
    out.push_back(fmt::format("{}={}", row.option, is_path ? absolute_path(*value).string() : *value));
  }
  if (!is_torch && !is_given(app, "--data"))
    throw InputError("--data", "is needed: the shipped script trains on JSON lines",
                     "--data train.jsonl, or a script of your own behind --");
  return out;
}

void refuse_script_flags(const CLI::App& app) {
  for (const ScriptFlag& row : kScriptFlags)
    if (is_given(app, row.flag))
      throw InputError(row.flag, "is not passed to a script of your own",
                       "write it behind --, as the script spells it");
}

void choose_strategy(EngineAsk& ask) {
  ask.result = estimate(ask.plan.request, InFull::InFocus);
  ask.chosen = strategy_in_focus(ask.result);
  if (!ask.chosen) throw no_strategy(ask.result);
  if (!ask.chosen->fits())
    throw InputError("the plan", fmt::format("does not fit: {}", ask.chosen->why_not_yes),
                     "gpuplan estimate says what would");
  ask.plan.request.strategy = ask.chosen->strategy.name;
}

void find_what_is_here(EngineAsk& ask) {
  EngineQuestion& q = ask.question;
  ask.launcher = find_launcher(q.engine);
  q.launcher = ask.launcher.words;
  q.python = ask.launcher.python;
  ask.packages =
      python_packages(q.python, {"torch", "accelerate", "transformers", "peft", "trl", "deepspeed", "bitsandbytes"});
  q.versions.assign(ask.packages.begin(), ask.packages.end());
  q.has_transformers = ask.packages.count("transformers") > 0;
}

int port_of(const CLI::App& app, const EngineAsk& ask) {
  if (const auto port = given_integer(app, "--port")) return narrow<int>(*port);
  return !ask.question.hosts.empty() || is_port_free(kUsualPort) ? kUsualPort : some_free_port();
}

void check_all(const CLI::App& app, EngineAsk& ask) {
  const EngineQuestion& q = ask.question;
  std::vector<Check>& checks = ask.checks;
  checks.push_back(
      {.what = q.engine,
       .found = ask.launcher.program.empty() ? "not found" : fmt::format("{}", fmt::join(q.launcher, " ")),
       .problem = ask.launcher.program.empty() ? fmt::format("{} is not on the PATH", q.launcher.front()) : ""});
  for (const auto& [package, least] : ask.job.packages) {
    const auto found = ask.packages.find(package);
    Check check{.what = package, .found = found == ask.packages.end() ? "not found" : found->second, .problem = ""};
    if (found == ask.packages.end())
      check.problem = fmt::format("{} has no {} ({} or later)", q.python, package, least);
    else if (is_older(found->second, least))
      check.problem = fmt::format("{} {} is older than {}", package, found->second, least);
    checks.push_back(std::move(check));
  }
  if (!q.script.empty() && q.script.front() != "-m") checks.push_back(check_file("script", q.script.front()));
  if (const auto data = given(app, "--data")) checks.push_back(check_file("data", *data));
  checks.push_back(check_disk(given(app, "--output").value_or(q.folder.string()),
                              is_given(app, "--output") ? ask.chosen->save.disk : Bytes{}));
  if (ask.is_local() && !ask.plan.request.cluster.gpus.front().is_cpu)
    checks.push_back(check_gpus(gpus_wanted(ask.plan.request, ask.result, ask.chosen->strategy)));
  if (is_given(app, "--port"))
    checks.push_back({.what = "port",
                      .found = std::to_string(q.port),
                      .problem = is_port_free(q.port) ? "" : fmt::format("port {} is taken on this machine", q.port)});
}

EngineAsk ask_engine(const CLI::App& app, Console& console) {
  EngineAsk ask;
  EngineQuestion& q = ask.question;
  q.engine = to_lower(*given(app, "--engine"));
  q.folder = absolute_path(given(app, "--job").value_or(kUsualFolder)).lexically_normal();
  q.script = script_of(console);
  const Words shown = without_secrets(q.script, Redaction());
  for (std::size_t word = 0; word < shown.size(); ++word)
    if (shown[word] != q.script[word]) q.secrets.insert(word);
  if (is_given(app, "--dry-run")) q.script = shown;  // ssh lines hold it, too
  if (const auto file = given(app, "--hosts")) q.hosts = parse_hosts(read_file(*file, kHostsLimit), *file);
  if (!q.hosts.empty() && q.engine == "slurm")
    throw InputError("--hosts", "Slurm chooses the machines", "leave it out");
  find_what_is_here(ask);
  const bool is_torch = q.script.empty() && !q.has_transformers && (q.engine == "torchrun" || q.engine == "slurm");
  ask.plan = read_plan_question(app, console.in, is_torch ? std::string_view("torch") : kUsualFramework);
  choose_strategy(ask);
  if (q.script.empty())
    q.options = script_options(app, ask);
  else
    refuse_script_flags(app);
  if (q.engine == "slurm" && !q.script.empty()) q.script.front() = absolute_path(q.script.front()).string();
  q.port = port_of(app, ask);
  ask.job = plan_engine(ask.plan.request, q, mark_of(app, ask));
  if (!ask.job.is_refused()) check_all(app, ask);
  return ask;
}

bool is_this_machine(const std::string& host) {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return host.empty() || host == "localhost" || host == "127.0.0.1" || host == name.data();
}

EngineRun run_of(const EngineAsk& ask) {
  EngineRun run{.metrics = ask.question.folder / "metrics",
                .has_gpus = ask.is_local() && !ask.plan.request.cluster.gpus.front().is_cpu};
  for (const EngineCommand& command : ask.job.commands) {
    const bool is_here = is_this_machine(command.host) && ask.question.engine != "slurm";
    EngineProcess process{.name = ask.question.engine + (command.host.empty() ? "" : " on " + command.host),
                          .command = command.words,
                          .variables = command.variables,
                          .is_here = is_here};
    if (!ask.question.script.empty()) {
      const std::string before = text_of_variable("PYTHONPATH");  // a script may import gpuplan_metrics
      const std::string scripts = (data_dir() / "ecosystem" / "scripts").string();
      process.variables.emplace_back("PYTHONPATH", scripts + (before.empty() ? "" : ":" + before));
    }
    if (!is_this_machine(command.host)) {
      EngineCommand remote = command;
      remote.variables = process.variables;
      remote.variables.emplace_back("GPUPLAN_METRICS", run.metrics.string());
      process.command = over_ssh(remote, absolute_path(".").parent_path());
      process.variables.clear();
    }
    run.processes.push_back(std::move(process));
  }
  if (ask.question.engine == "slurm") {
    run.batch_output = (ask.question.folder / "gpuplan-%j.out").string();
    run.cancel = {"scancel"};
  }
  return run;
}

EngineRun without_secrets(EngineRun run) {
  const Redaction redacted;
  for (EngineProcess& process : run.processes) {
    process.command = without_secrets(process.command, redacted);
    for (auto& [name, value] : process.variables) value = redacted(value);
  }
  return run;
}

std::string dry_json(const EngineAsk& ask, const EngineRun& run) {
  return json_text(written([&](auto& f) { list_dry_run(f, ask.question, ask.job, run, ask.checks); }));
}

std::string dry_text(const EngineAsk& ask, const EngineRun& run) {
  std::string out;
  for (const Check& check : ask.checks)
    out += fmt::format("{:<14}{}{}\n", check.what, check.found, check.problem.empty() ? "" : ": " + check.problem);
  out += fmt::format("\nFiles in {}\n\n{}", ask.question.folder.string(), listing_of(ask.job.files));
  for (const EngineProcess& process : run.processes) {
    out += fmt::format("Starts {}\n ", process.name);
    for (const auto& [name, value] : process.variables) out += fmt::format(" {}", shell_word(name + "=" + value));
    for (const std::string& word : process.command) out += " " + shell_word(word);
    out += "\n";
  }
  return printable(out);  // names of files and jobs are what somebody chose
}

std::vector<std::string> problems_of(const EngineAsk& ask) {
  std::vector<std::string> problems;
  for (const Check& check : ask.checks)
    if (!check.problem.empty()) problems.push_back(check.problem);
  return problems;
}

void require_all(const EngineAsk& ask) {
  const std::vector<std::string> problems = problems_of(ask);
  if (!problems.empty()) throw EnvError(fmt::format("nothing was started: {}", fmt::join(problems, "; ")));
}

void note_out_of_memory(const EngineAsk& ask, const EngineOutcome& outcome, Console& console) {
  const auto message = find_out_of_memory(outcome.tail);
  if (!message) return;
  console.tell(describe(*message));
  console.tell(compare_with(*message, ask.chosen->tiers.process, ask.chosen->memory_range, ask.chosen->strategy.name));
}

}  // namespace

void add_engine_flags(CLI::App& app) {
  const char* const kEngine = "Engine";
  Words names = engine_names();
  names.emplace_back(kNative);
  add_flag(app, "--engine", fmt::format("{}", fmt::join(names, "|")),
           "who trains. Default native, gpuplan's own executor. Behind -- stands a script of your own with its "
           "arguments; without it a shipped one trains",
           kEngine);
  add_flag(app, "--dry-run", "", "print the checks, the files and the commands, and start nothing", kEngine);
  add_flag(
      app, "--job", "DIR",
      fmt::format("where the engine's files and metrics go, a folder that all machines see. Default {}", kUsualFolder),
      kEngine, Declared::Always);
  add_flag(app, "--hosts", "FILE", "the machines of the plan, a host a line; others than this one are reached by ssh",
           kEngine);
  add_flag(app, "--port", "N", fmt::format("of rank 0. Default {}, or a free one", kUsualPort), kEngine);
  add_flag(app, "--force", "", "replace what gpuplan did not write: a model in --output, --trace, files in --job",
           kEngine);
}

bool wants_other_engine(const CLI::App& app, const Console& console) {
  const auto engine = given(app, "--engine");
  if (engine && to_lower(*engine) != kNative) {
    Words names = engine_names();
    if (std::find(names.begin(), names.end(), to_lower(*engine)) != names.end()) return true;
    names.emplace_back(kNative);
    throw InputError("--engine", fmt::format("unknown engine '{}'", *engine),
                     did_you_mean(*engine, names, fmt::format("known: {}", fmt::join(names, ", "))));
  }
  for (const char* flag : {"--dry-run", "--job", "--hosts", "--port"})
    if (is_given(app, flag))
      throw InputError(flag, "needs another --engine than native", "for example --engine torchrun");
  if (!script_of(console).empty())
    throw InputError("--", "a script of your own needs --engine", "for example --engine accelerate -- train.py");
  return false;
}

int run_with_engine(const CLI::App& app, Console& console) {
  EngineAsk ask = ask_engine(app, console);
  const bool is_json = is_given(app, "--json");
  if (ask.job.is_refused()) {
    console.tell(fmt::format("{}\n  nearest: {}", ask.job.refusal, ask.job.nearest));
    if (is_json) console.print(dry_json(ask, {}));
    return 1;
  }
  const EngineRun run = run_of(ask);
  if (is_given(app, "--dry-run")) {
    const EngineRun shown = without_secrets(run);
    console.print(is_json ? dry_json(ask, shown) : dry_text(ask, shown));
    const std::vector<std::string> problems = problems_of(ask);
    if (!problems.empty()) console.tell(fmt::format("it would not start here: {}", fmt::join(problems, "; ")));
    return problems.empty() ? 0 : 1;
  }
  require_all(ask);
  write_exported(ask.job.files, ask.question.folder, is_given(app, "--force") ? Replaces::Everything : Replaces::Ours,
                 console);
  for (const std::string& note : ask.job.notes) console.tell(note);
  const EngineOutcome outcome = run_engine(run, console.raw, console.err);
  if (outcome.code != 0) note_out_of_memory(ask, outcome, console);
  const EngineReport report = make_engine_report(ask.plan.request, *ask.chosen, ask.question.engine, outcome);
  std::vector<std::string> notes = ask.plan.notes;
  if (std::string note = keep_engine_run(report, ask.result.profile); !note.empty()) notes.push_back(std::move(note));
  if (!outcome.steps.empty() || is_json)
    console.print(is_json ? json_text(written([&](auto& f) { list_engine_run(f, report); }))
                          : engine_text(report, notes, console.screen));
  return outcome.code;
}

}  // namespace gpuplan
