// gpuplan run: executes the plan for real, and says how far the prediction was off.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "cli/arguments.h"
#include "cli/output_flags.h"
#include "cli/plan_flags.h"
#include "cli/plan_question.h"
#include "execute/commands.h"
#include "execute/run_fields.h"
#include "execute/run_text.h"
#include "models/training_method.h"
#include "report/answers.h"
#include "run/files/adapter_files.h"
#include "run/rank_process.h"
#include "run/saved_model.h"
#include "run/supervise.h"

namespace gpuplan {
namespace {

/// The plan with the executor's own conventions: what it predicts is what it runs.
struct RunQuestion {
  EstimateRequest request;
  std::vector<std::string> notes;
  EstimateResult result;
  const StrategyEstimate* chosen = nullptr;
};

void make_native(RunQuestion& q) {
  q.request.recipe.framework = "native";
  q.notes.push_back("framework native: gpuplan's own executor runs the plan");
}

/// An adapter that training goes on from says itself what it is.
void take_adapter(const CLI::App& app, RunQuestion& q) {
  const auto folder = given(app, "--adapter");
  if (!folder) return;
  Recipe& recipe = q.request.recipe;
  if (is_given(app, "--full"))
    throw InputError("--adapter", "full fine-tuning has no adapter to go on from", "add --lora or --qlora");
  const AdapterConfig config = read_adapter_config(*folder);
  const std::string said = "," + given(app, "--lora").value_or("") + "," + given(app, "--qlora").value_or("");
  const auto says = [&](const char* key) { return said.find(key) != std::string::npos; };
  if (says(",r=") && recipe.lora.rank != config.rank)
    throw InputError("--adapter",
                     fmt::format("{} has r={}, and r={} is asked for", *folder, config.rank, recipe.lora.rank),
                     "leave r out: the adapter says it");
  if (!recipe.is_adapter()) recipe.method = Method::Lora;
  std::erase_if(q.notes, [](const std::string& note) { return note.starts_with("full fine-tuning, as neither"); });
  recipe.lora.rank = config.rank;
  recipe.lora.alpha = config.alpha;
  recipe.lora.targets = config.target_modules;
  if (config.dropout > 0 && !says(",dropout="))
    throw InputError("--adapter",
                     fmt::format("{} was trained with lora_dropout {:g}, and the native executor has no dropout",
                                 *folder, config.dropout),
                     "--lora dropout=0 goes on without it");
  recipe.lora.modules_to_save = config.modules_to_save;
  if (head_of(recipe) == MethodHead::Score) std::erase(recipe.lora.modules_to_save, "score");  // it is trained anyway
  q.notes.push_back(fmt::format("adapter from {}: r={}, alpha={:g}", *folder, config.rank, config.alpha));
}

RunQuestion ask(const CLI::App& app, Console& console) {
  PlanQuestion plan = read_plan_question(app, console.in, "native");
  RunQuestion q{.request = std::move(plan.request), .notes = std::move(plan.notes), .result = {}};
  make_native(q);
  take_adapter(app, q);
  q.result = estimate(q.request, InFull::InFocus);
  q.chosen = strategy_in_focus(q.result);
  if (!q.chosen) throw no_strategy(q.result);
  if (!q.chosen->fits())
    throw InputError("the plan", fmt::format("does not fit: {}", q.chosen->why_not_yes),
                     "gpuplan estimate says what would");
  return q;
}

bool has_gpus() {
  const auto gpus = find_local_gpus();
  const auto* const cluster = std::get_if<ClusterSpec>(&gpus);
  return cluster && cluster->num_gpus() > 0;
}

/// Neither a plan nor GPUs are given, and this machine has none: its cores.
bool needs_machine(const CLI::App& app) {
  return !is_given(app, "plan") && !is_given(app, "--gpus") && !is_given(app, "--cluster") &&
         is_given(app, "--model") && !has_gpus();
}

/// The ranks take the parent's choice: memory that is free may be another when they look.
std::vector<std::string> with_strategy(const CLI::App& app, std::vector<std::string> arguments,
                                       const std::string& name) {
  if (!is_given(app, "--strategy")) arguments.push_back("--strategy=" + name);
  return arguments;
}

int run_launched(const LaunchedRank& launched, const CLI::App& app, Console& console) {
  const auto output = given(app, "--output");
  if (output && !is_given(app, "--force")) require_no_other_model(*output);
  RunQuestion q = ask(app, console);
  const TrainingOptions options = read_training_options(app, q.request);
  const Strategy& strategy = q.chosen->strategy;
  const bool is_cpu = device_kind(q.request.cluster) == DeviceKind::Cpu;
  const RankLaunch launch{
      .num_ranks = strategy.mesh.world(),
      .gpus = is_cpu ? std::vector<GpuWanted>{} : gpus_wanted(q.request, q.result, strategy),
      .arguments = with_strategy(app, console.arguments, strategy.name),
      .reads_input = given(app, "plan").value_or("") == "-" || given(app, "--model").value_or("") == "-"};
  if (const auto code = launch_ranks(launch, launched, console.out, console.err)) return *code;

  std::optional<ReservedFile> trace;
  if (given(app, "--trace").value_or("-") != "-" && launched.rank == 0)
    trace.emplace(*given(app, "--trace"), "another run writes its timeline there; name another file for --trace");
  RunProgress progress(console, is_given(app, "--json"));
  const auto report = run_rank({.request = q.request,
                                .result = q.result,
                                .chosen = *q.chosen,
                                .options = options,
                                .on_step = [&](const StepMetrics& m, std::int64_t total) { progress.show(m, total); }},
                               launched);
  progress.finish();
  if (!report) return 0;
  if (std::string note = keep_run(*report, q.result.profile); !note.empty()) q.notes.push_back(std::move(note));
  if (const auto file = given(app, "--trace"); file && report->outcome.timeline.empty())
    q.notes.emplace_back("no trace: the run ended before its last step");
  else if (file)
    write_output(*file, run_trace(*report), console, "");
  console.print(is_given(app, "--json") ? json_text(written([&](auto& f) { list_run(f, *report); }))
                                        : run_text(*report, q.notes, options, console.screen));
  return report->outcome.was_stopped ? 3 : 0;
}

}  // namespace

void setup_run(CLI::App& app) {
  add_plan_flags(app);
  add_global_batch_flag(app);
  add_run_flags(app);
  add_engine_flags(app);
}

int run_run(const CLI::App& app, Console& console) {
  if (wants_other_engine(app, console)) return run_with_engine(app, console);
  if (is_given(app, "--demo")) return run_demo(app, console);
  if (needs_machine(app)) {
    std::vector<std::string> arguments = console.arguments;
    arguments.push_back("--gpus=" + fastest_cpu_ranks(arguments));
    return run_with(arguments, console);
  }
  count_gpus_by_bus();  // before any library looks at the GPUs
  const LaunchedRank launched = read_launcher();
  try {
    return run_launched(launched, app, console);
  } catch (const std::exception&) {
    let_first_rank_speak(launched);
    throw;
  }
}

}  // namespace gpuplan
