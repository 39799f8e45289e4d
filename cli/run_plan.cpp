// gpuplan run: executes the plan for real, and says how far the prediction was off.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <sstream>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "base/processor.h"
#include "base/unit_text.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/estimate_answer.h"
#include "cli/plan_flags.h"
#include "cli/render/run_text.h"
#include "cluster/fabric.h"
#include "run/heartbeat.h"
#include "run/launch.h"
#include "run/run_report.h"
#include "run/supervise.h"
#include "run/training.h"

namespace gpuplan {
namespace {

void setup(CLI::App& app) {
  add_plan_flags(app);
  const char* const kTraining = "Training";
  add_flag(app, "--demo", "", "fine-tune the small model that comes with gpuplan, on its documents", kTraining);
  add_flag(app, "--data", "FILE", "tokens (.bin, .npy), JSON lines with input_ids or text. Default: random tokens, to measure", kTraining);
  add_flag(app, "--token-dtype", "uint16|uint32", "of a .bin without header. Default by the vocabulary", kTraining);
  add_flag(app, "--init", "random", "random weights instead of the model's files", kTraining);
  add_flag(app, "--adapter", "DIR", "go on from this PEFT adapter", kTraining);
  add_flag(app, "--max-steps", "N", "optimizer steps. Default: --epochs of the data, 10 without data", kTraining);
  add_flag(app, "--lr", "RATE", "highest learning rate. Default 2e-4 for adapters, 2e-5 for full", kTraining);
  add_flag(app, "--schedule", "constant|linear|cosine", "after the warm-up. Default linear", kTraining);
  add_flag(app, "--warmup", "N", "steps. Default 0", kTraining);
  add_flag(app, "--weight-decay", "W", "AdamW's; never of norms and biases. Default 0", kTraining);
  add_flag(app, "--clip", "NORM", "largest global gradient norm, 0: none. Default 1", kTraining);
  add_flag(app, "--seed", "S", "of order and random weights. Default 0", kTraining);
  add_flag(app, "--no-shuffle", "", "blocks in the order of the file", kTraining);
  add_flag(app, "--output", "DIR", "write adapter or model, and checkpoints, here", kTraining);
  add_flag(app, "--save-every", "K", "checkpoint every K steps. Default: none but at Ctrl-C", kTraining);
  add_flag(app, "--keep", "K", "checkpoints that stay. Default: all", kTraining);
  add_flag(app, "--resume", "", "go on from the latest checkpoint of --output", kTraining);
  add_flag(app, "--metrics", "FILE", "one JSON line per step", kTraining);
  add_flag(app, "--trace", "FILE", "write the last step's real timeline for Perfetto", kTraining);
  add_flag(app, "--json", "", "the report as JSON, in base units");
}

std::atomic<bool> stop_asked{false};
void ask_to_stop(int) { stop_asked = true; }

std::int64_t number(const CLI::App& app, const char* flag, std::int64_t otherwise, std::int64_t least) {
  const auto text = given(app, flag);
  return text ? parse_integer(*text, flag, least) : otherwise;
}

double amount(const CLI::App& app, const char* flag, double otherwise) {
  const auto text = given(app, flag);
  if (!text) return otherwise;
  const double value = parse_number(*text, flag);
  if (!(value >= 0)) throw InputError(flag, fmt::format("'{}' is below 0", *text));
  return value;
}

std::optional<Dtype> token_dtype(const CLI::App& app) {
  const auto text = given(app, "--token-dtype");
  if (!text) return {};
  if (*text == "uint16") return Dtype::I16;
  if (*text == "uint32") return Dtype::I32;
  throw InputError("--token-dtype", fmt::format("unknown dtype '{}'", *text), "uint16 or uint32");
}

/// The folder of --model: weights and tokenizer are there.
std::filesystem::path model_folder(const EstimateRequest& r) {
  const std::filesystem::path source = r.model.source;
  return source.filename() == "config.json" ? source.parent_path() : source;
}

TrainingOptions read_options(const CLI::App& app, const EstimateRequest& r) {
  TrainingOptions o;
  o.model_folder = model_folder(r);
  if (const auto init = given(app, "--init")) {
    if (*init != "random") throw InputError("--init", fmt::format("unknown '{}'", *init), "random");
    o.is_random = true;
  }
  if (const auto adapter = given(app, "--adapter")) {
    if (!r.recipe.is_adapter()) throw InputError("--adapter", "full fine-tuning has no adapter to go on from", "add --lora or --qlora");
    o.adapter = *adapter;
  }
  if (const auto file = given(app, "--data"))
    o.data = DataOptions{.file = *file, .tokenizer_folder = o.model_folder, .token_dtype = token_dtype(app), .vocab_size = r.model.vocab_size,
                         .seq_len = r.recipe.seq_len, .packing = r.recipe.packing};
  if (const auto output = given(app, "--output")) o.output = *output;
  if (const auto metrics = given(app, "--metrics")) o.metrics = *metrics;
  o.save_every = number(app, "--save-every", 0, 1);
  o.keep = number(app, "--keep", 0, 1);
  o.resumes = is_given(app, "--resume");
  o.optimizer.weight_decay = amount(app, "--weight-decay", 0);
  o.optimizer.clip = amount(app, "--clip", 1);
  o.learning_rate = amount(app, "--lr", r.recipe.is_adapter() ? 2e-4 : 2e-5);
  o.schedule = parse_lr_schedule(given(app, "--schedule").value_or("linear"), "--schedule");
  o.warmup_steps = number(app, "--warmup", 0, 0);
  o.max_steps = number(app, "--max-steps", o.data ? 0 : 10, 1);
  o.epochs = r.dataset.epochs;
  o.shuffles = !is_given(app, "--no-shuffle");
  o.seed = std::uint64_t(number(app, "--seed", 0, 0));
  o.records_last_step = true;
  for (const char* flag : {"--resume", "--save-every", "--keep"})
    if (is_given(app, flag) && o.output.empty()) throw InputError(flag, "needs --output", "the folder that holds the checkpoints");
  return o;
}

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

RunQuestion ask(const CLI::App& app, Console& console) {
  PlanQuestion plan = read_plan_question(app, console.in);
  RunQuestion q{.request = std::move(plan.request), .notes = std::move(plan.notes), .result = {}};
  make_native(q);
  q.result = estimate(q.request);
  q.chosen = closest_look(q.result);
  if (!q.chosen) throw InputError("--strategy", q.result.strategies.front().not_applicable, "leave --strategy out to let gpuplan choose");
  if (!q.chosen->fits) throw InputError("the plan", fmt::format("does not fit: {}", q.chosen->does_not_fit_because), "gpuplan estimate says what would");
  return q;
}

bool has_gpus() {
  try {
    return parse_gpus("local").num_gpus() > 0;
  } catch (const EnvError&) {
    return false;
  } catch (const InputError&) {
    return false;  // a card that the catalogue does not know
  }
}

DeviceKind device_kind(const ClusterSpec& cluster) { return cluster.gpus.front().is_cpu ? DeviceKind::Cpu : DeviceKind::Cuda; }

int run_rank(RunQuestion& q, const LaunchedRank& launched, const TrainingOptions& options, const CLI::App& app, Console& console) {
  const NativeJob job(q.request, q.chosen->strategy);
  const std::int64_t world_size = job.strategy.mesh.world();
  if (launched.launcher != Launcher::None && launched.size != world_size)
    throw InputError("--gpus", fmt::format("the plan has {} ranks, and the launcher started {}", world_size, launched.size), "start as many as the plan has");
  const int threads = std::max(1, int(num_usable_cores() / std::max<std::int64_t>(1, std::min(world_size, launched.local_size))));
  const DeviceKind kind = device_kind(q.request.cluster);
  const Bytes start = peak_resident_bytes();
  const auto device = device_backend(kind).open({.index = int(launched.local_rank), .num_threads = threads});
  const auto world = world_size > 1 ? collective_backend(kind).join(*device, {.rank = int(launched.rank), .size = int(world_size), .id = {}}) : nullptr;
  const RankPlace place = place_of(world ? world->rank() : 0, job.strategy.mesh);
  RunProgress progress(console, is_given(app, "--json"));
  Heartbeat heartbeat(place.rank);
  TrainingHooks hooks{.on_step = [&](const StepMetrics& m, std::int64_t total) { progress.show(m, total); },
                      .on_alive = [&](std::int64_t step) { heartbeat.beat(step); },
                      .stop = &stop_asked};
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) std::signal(signal, ask_to_stop);
  const TrainingOutcome outcome = train(job, place, *device, world.get(), options, hooks);
  progress.finish();
  if (place.rank != 0) return 0;
  const RunReport report = make_run_report({job, place, q.result, *q.chosen, outcome, peak_resident_bytes() - start});
  if (const auto file = given(app, "--trace")) write_file_atomically(*file, run_trace(report));
  console.print(is_given(app, "--json") ? json_text(run_json(report)) : run_text(report, q.notes, options, console.screen));
  return outcome.was_stopped ? 3 : 0;
}

int run_demo(const CLI::App& given_flags, Console& console);
int run_with(const std::vector<std::string>& arguments, Console& console);
std::string fastest_gpus(const std::vector<std::string>& arguments);

/// Neither a plan nor GPUs are given, and this machine has none: its cores.
bool needs_machine(const CLI::App& app) {
  return !is_given(app, "plan") && !is_given(app, "--gpus") && !is_given(app, "--cluster") && is_given(app, "--model") && !has_gpus();
}

int run(const CLI::App& app, Console& console) {
  if (is_given(app, "--demo")) return run_demo(app, console);
  if (needs_machine(app)) {
    std::vector<std::string> arguments = console.arguments;
    arguments.push_back("--gpus=" + fastest_gpus(arguments));
    return run_with(arguments, console);
  }
  const LaunchedRank launched = read_launcher();
  RunQuestion q = ask(app, console);
  const TrainingOptions options = read_options(app, q.request);
  const std::int64_t num_ranks = q.chosen->strategy.mesh.world();
  if (launched.launcher == Launcher::None && num_ranks > 1) return supervise_ranks(num_ranks, console.arguments, console.err);
  return run_rank(q, launched, options, app, console);
}

constexpr std::string_view kReplacedFlags[] = {"--gpus", "--max-steps", "--lr", "--output", "--metrics", "--trace", "--save-every", "--keep", "--resume"};

/// The demo is `gpuplan run` with these flags, where they are not given otherwise.
struct DemoFlag {
  const char* name;
  std::string value;
};

std::vector<DemoFlag> demo_flags() {
  const std::filesystem::path demo = data_dir() / "demo";
  return {{"--model", demo.string()}, {"--data", (demo / "train.jsonl").string()}, {"--lora", "r=16"},     {"--seq-len", "256"},
          {"--micro-batch", "4"},     {"--lr", "1e-2"},                            {"--max-steps", "300"}, {"--schedule", "cosine"},
          {"--warmup", "10"},         {"--output", "gpuplan-demo"}};
}

/// Ranks of this host that train fastest as predicted: one that has all cores, or one per core.
std::string fastest_gpus(const std::vector<std::string>& arguments) {
  std::string best = "1xcpu";
  double most = 0;
  for (const std::int64_t n : {std::int64_t{1}, std::int64_t{num_usable_cores()}}) {
    std::vector<std::string> with = arguments;
    with.insert(with.end(), {"--gpus", fmt::format("{}xcpu", n)});
    CLI::App app;
    declare_commands(app);
    std::istringstream nothing;
    PlanQuestion plan = read_plan_question(*parse(app, with).app, nothing);
    plan.request.recipe.framework = "native";
    const EstimateResult result = estimate(plan.request);
    const StrategyEstimate* chosen = closest_look(result);
    if (!chosen || chosen->tokens_per_second <= most) continue;
    most = chosen->tokens_per_second;
    best = fmt::format("{}xcpu", n);
  }
  return best;
}

/// "--flag=value", and "--flag" with the value behind it.
std::vector<std::string> without_flags(const std::vector<std::string>& arguments) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string name = arguments[i].substr(0, arguments[i].find('='));
    const bool is_replaced = std::find(std::begin(kReplacedFlags), std::end(kReplacedFlags), name) != std::end(kReplacedFlags);
    if (!is_replaced) out.push_back(arguments[i]);
    else if (name == arguments[i] && name != "--resume") ++i;
  }
  return out;
}

/// The loss of the first batch, with or without an adapter: a step with learning rate 0, in this process.
double loss_of_first_batch(std::vector<std::string> arguments, Console& console, const std::string& adapter) {
  arguments = without_flags(arguments);
  arguments.insert(arguments.end(), {"--gpus=1xcpu", "--max-steps=1", "--lr=0", "--json"});
  if (!adapter.empty()) arguments.push_back("--adapter=" + adapter);
  std::ostringstream out, err;
  Console quiet{console.in, out, err, {}, console.command_line, arguments};
  CLI::App app;
  declare_commands(app);
  run(*parse(app, arguments).app, quiet);
  return nlohmann::json::parse(out.str())["first_loss"].get<double>();
}

/// What was saved is what was trained: read back, it keeps the loss down.
void show_reloaded(const std::vector<std::string>& arguments, const std::string& output, Console& console) {
  const double before = loss_of_first_batch(arguments, console, ""), after = loss_of_first_batch(arguments, console, output);
  console.print(fmt::format("adapter read back from {}: loss {:.4f} on the first batch, {:.4f} without it\n", output, after, before));
}

/// Runs with more arguments, as if they had been typed.
int run_with(const std::vector<std::string>& arguments, Console& console) {
  console.arguments = arguments;
  if (read_launcher().launcher == Launcher::None) console.err << fmt::format("gpuplan: gpuplan {}\n", fmt::join(arguments, " "));
  CLI::App app;
  declare_commands(app);
  return run(*parse(app, arguments).app, console);
}

int run_demo(const CLI::App& given_flags, Console& console) {
  std::vector<std::string> arguments;
  for (const std::string& argument : console.arguments)
    if (argument != "--demo") arguments.push_back(argument);
  const bool has_method = is_given(given_flags, "--full") || is_given(given_flags, "--lora") || is_given(given_flags, "--qlora");
  for (const DemoFlag& flag : demo_flags())
    if (!is_given(given_flags, flag.name) && !(has_method && std::string_view(flag.name) == "--lora"))
      arguments.push_back(fmt::format("{}={}", flag.name, flag.value));
  if (!is_given(given_flags, "--gpus")) arguments.push_back("--gpus=" + fastest_gpus(arguments));
  const int code = run_with(arguments, console);
  const bool shows = code == 0 && !has_method && !is_given(given_flags, "--json") && read_launcher().launcher == Launcher::None;
  if (shows) show_reloaded(arguments, given(given_flags, "--output").value_or("gpuplan-demo"), console);
  return code;
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
