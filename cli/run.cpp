// gpuplan run: executes the plan for real, and says how far the prediction was off.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <thread>

#include <fmt/format.h>

#include "base/date.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/processor.h"
#include "base/sha256.h"
#include "base/unit_text.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/plan_flags.h"
#include "cli/run_demo.h"
#include "cli/run_flags.h"
#include "cli/run_gpus.h"
#include "cluster/fabric.h"
#include "report/estimate_answer.h"
#include "report/text/run_text.h"
#include "run/files/adapter_files.h"
#include "run/gpu_check.h"
#include "run/heartbeat.h"
#include "run/launch.h"
#include "run/process_memory.h"
#include "run/run_report.h"
#include "run/supervise.h"
#include "run/training.h"

namespace gpuplan {
namespace {

void setup(CLI::App& app) {
  add_plan_flags(app);
  add_run_flags(app);
}

std::atomic<bool> stop_asked{false}, is_supervised{false};
/// The first time, the run saves and ends after its step; the second time it ends at once. A supervised rank leaves
/// that to its supervisor: who stops a whole job signals both, and the supervisor passes it on.
void ask_to_stop(int signal) {
  if (!stop_asked.exchange(true) || is_supervised) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

class StopSignals {
 public:
  StopSignals() { set(ask_to_stop); }
  ~StopSignals() { set(SIG_DFL); }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  static void set(void (*handler)(int)) {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1})
      if (std::signal(signal, handler) == SIG_IGN && signal == SIGHUP) std::signal(signal, SIG_IGN);  // nohup's wish
  }
};

/// The plan with the executor's own conventions: what it predicts is what it runs.
struct RunQuestion {
  EstimateRequest request;
  std::vector<std::string> notes;
  EstimateResult result;
  const StrategyEstimate* chosen = nullptr;
};

void make_native(RunQuestion& q) {
  Recipe& recipe = q.request.recipe;
  if (recipe.framework == "native") return;
  recipe.framework = "native";
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
  q.notes.push_back(fmt::format("adapter from {}: r={}, alpha={:g}", *folder, config.rank, config.alpha));
}

RunQuestion ask(const CLI::App& app, Console& console) {
  PlanQuestion plan = read_plan_question(app, console.in);
  RunQuestion q{.request = std::move(plan.request), .notes = std::move(plan.notes), .result = {}};
  make_native(q);
  take_adapter(app, q);
  q.result = estimate(q.request);
  q.chosen = strategy_in_focus(q.result);
  if (!q.chosen)
    throw InputError("--strategy", q.result.strategies.front().not_applicable,
                     "leave --strategy out to let gpuplan choose");
  if (!q.chosen->fits)
    throw InputError("the plan", fmt::format("does not fit: {}", q.chosen->does_not_fit_because),
                     "gpuplan estimate says what would");
  return q;
}

bool has_gpus() {
  try {
    return parse_gpus("local").num_gpus() > 0;
  } catch (const EnvError&) { return false; } catch (const InputError&) {
    return false;  // a card that the catalogue does not know
  }
}

DeviceKind device_kind(const ClusterSpec& cluster) {
  return cluster.gpus.front().is_cpu ? DeviceKind::Cpu : DeviceKind::Cuda;
}

/// Every rank has asked for itself, on what may be another machine: they must have come to the same plan.
void require_one_plan(const NativeJob& job, const TrainingOptions& options, Communicator& world) {
  nlohmann::json plan = run_identity(job, options);
  plan["checkpointing"] = int(job.recipe().checkpointing);
  plan["when"] = {options.max_steps, options.epochs, options.save_every, options.resumes, !options.output.empty()};
  const auto number = double(std::stoll(sha256_hex(plan.dump()).substr(0, 12), nullptr, 16));  // exact: 48 bits
  if (world.max_host(number) != number || world.max_host(-number) != -number)
    throw InputError("--strategy", "the ranks chose different plans",
                     "give each of them the same flags, and --strategy");
}

/// What this run was off, beside the profile that predicted it.
void keep_for_next_time(const RunReport& report, RunQuestion& q) {
  const Profile& profile = q.result.profile;
  const auto record = run_record(report, profile, today());
  if (!record) return;
  try {
    add_run(profile.file, *record);
    q.notes.push_back(fmt::format("kept in {}: it corrects the next estimate on as many ranks",
                                  run_history_file(profile.file).string()));
  } catch (const EnvError& error) {
    q.notes.push_back(fmt::format("not kept for the next estimate: {}", error.what()));
  }
}

std::vector<GpuWanted> gpus_wanted(const RunQuestion& q) {
  return gpus_wanted(q.request, q.result, q.chosen->strategy);
}

int run_rank(RunQuestion& q, const LaunchedRank& launched, const TrainingOptions& options, const CLI::App& app,
             Console& console) {
  const NativeJob job(q.request, q.chosen->strategy);
  const std::int64_t world_size = job.strategy.mesh.world();
  if (launched.launcher != Launcher::None && launched.size != world_size)
    throw InputError("--gpus",
                     fmt::format("the plan has {} ranks, and the launcher started {}", world_size, launched.size),
                     "start as many as the plan has");
  const int threads =
      std::max(1, int(num_usable_cores() / std::max<std::int64_t>(1, std::min(world_size, launched.local_size))));
  const DeviceKind kind = device_kind(q.request.cluster);
  Heartbeat heartbeat(launched.rank);
  const Rendezvous meeting = meet(kind, launched, world_size);
  ProcessMemory process;
  const auto device = kind == DeviceKind::Cuda ? open_gpu(gpus_wanted(q), launched)
                                               : device_backend(kind).open({.num_threads = threads});
  process.opened(*device);
  const auto world = world_size > 1 ? collective_backend(kind).join(*device, meeting) : nullptr;
  if (world) require_one_plan(job, options, *world);
  if (kind == DeviceKind::Cpu) bind_to_share_of_cores(launched.local_rank, std::min(world_size, launched.local_size));
  const RankPlace place = place_of(world ? world->rank() : 0, job.strategy.mesh);
  RunProgress progress(console, is_given(app, "--json"));
  const TrainingHooks hooks{.on_step = [&](const StepMetrics& m, std::int64_t total) { progress.show(m, total); },
                            .on_alive = [&](std::int64_t step) { heartbeat.beat(step); },
                            .stop = &stop_asked,
                            .on_failure =
                                [&] {
                                  const bool speaks = has_first_word(place.rank).value_or(true);
                                  if (kind == DeviceKind::Cuda && world) end_when_stuck(speaks);
                                },
                            .process_memory = [&](Bytes held) { return process.now(*device, held); }};
  TrainingOutcome outcome;
  is_supervised = launched.launcher == Launcher::Gpuplan;
  {
    const StopSignals signals;
    outcome = train(job, place, *device, world.get(), options, hooks);
  }
  progress.finish();
  if (place.rank != 0) return 0;
  const RunReport report = make_run_report({job, place, *q.chosen, outcome});
  keep_for_next_time(report, q);
  if (const auto file = given(app, "--trace")) write_file_atomically(*file, run_trace(report));
  console.print(is_given(app, "--json") ? json_text(run_json(report))
                                        : run_text(report, q.notes, options, console.screen));
  return outcome.was_stopped ? 3 : 0;
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

/// What all ranks meet is said once: the one that failed first, or where nobody keeps that the first rank, speaks and
/// ends; that takes the others with it before they speak.
template <class Run>
int with_one_message(const LaunchedRank& launched, Run run) {
  try {
    return run();
  } catch (const std::exception&) {
    constexpr auto kFirstSpeaks = std::chrono::seconds(2);
    if (!has_first_word(launched.rank).value_or(launched.rank == 0)) std::this_thread::sleep_for(kFirstSpeaks);
    throw;
  }
}

int run_launched(const LaunchedRank& launched, const CLI::App& app, Console& console);

int run(const CLI::App& app, Console& console) {
  if (is_given(app, "--demo")) return run_demo(app, console);
  if (needs_machine(app)) {
    std::vector<std::string> arguments = console.arguments;
    arguments.push_back("--gpus=" + fastest_cpu_ranks(arguments));
    return run_with(arguments, console);
  }
  count_gpus_by_bus();  // before any library looks at the GPUs
  const LaunchedRank launched = read_launcher();
  return with_one_message(launched, [&] { return run_launched(launched, app, console); });
}

int run_launched(const LaunchedRank& launched, const CLI::App& app, Console& console) {
  RunQuestion q = ask(app, console);
  const TrainingOptions options = read_training_options(app, q.request);
  const std::int64_t num_ranks = q.chosen->strategy.mesh.world();
  const bool is_cpu = device_kind(q.request.cluster) == DeviceKind::Cpu;
  if (is_cpu && launched.launcher == Launcher::Slurm && !launched.has_mpi)
    throw InputError("srun", "did not offer PMIx to these ranks, so that MPI cannot join them",
                     "srun --mpi=pmix, or mpirun");
  const bool is_under_torchrun = launched.launcher == Launcher::Torchrun && is_cpu && launched.size > 1;
  if (is_under_torchrun) {  // MPI's ranks are started by MPI: one of torchrun's processes does it, the others have
                            // nothing to do
    if (launched.size != num_ranks || launched.size != launched.local_size)
      throw InputError("torchrun",
                       fmt::format("started {} processes, {} of them here, and the plan has {} CPU ranks",
                                   launched.size, launched.local_size, num_ranks),
                       "as many as the plan has, on one machine; several machines: mpirun or srun");
    if (launched.rank > 0) return 0;
  }
  const bool starts_ranks = launched.launcher == Launcher::None || is_under_torchrun;
  if (starts_ranks && num_ranks > 1) {
    if (given(app, "plan").value_or("") == "-" || given(app, "--model").value_or("") == "-")
      throw InputError("-", "a plan from standard input cannot be given to several ranks", "save it in a file");
    const std::vector<std::string> arguments = with_strategy(app, console.arguments, q.chosen->strategy.name);
    if (is_cpu) return supervise_ranks(num_ranks, arguments, console.err);
    require_gpus_here(gpus_wanted(q));
    std::vector<std::string> command{own_program().string()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return supervise_gpu_ranks(num_ranks, command, console.err);
  }
  return run_rank(q, launched, options, app, console);
}

}  // namespace

const Command kRun{.name = "run",
                   .summary = "execute the plan, report predicted against measured",
                   .usage = "[PLAN.json] --model DIR [--full | --lora | --qlora] --gpus GPUS --data FILE [OPTION]...",
                   .example =
                       "gpuplan run --demo\n"
                       "gpuplan run --model ./tinyllama --lora r=8 --gpus 2xcpu --data train.jsonl --output out\n"
                       "gpuplan run plan.json --init random --max-steps 5",
                   .setup = setup,
                   .run = run};

}  // namespace gpuplan
