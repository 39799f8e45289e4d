// gpuplan diagnose: a measured run beside the predicted one, and what explains the gap.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/date.h"
#include "base/error.h"
#include "base/files.h"
#include "base/input_stream.h"
#include "base/json_file.h"
#include "base/names.h"
#include "base/unit_text.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/config_files.h"
#include "cli/flag_ranges.h"
#include "cli/output_flags.h"
#include "cli/own_point.h"
#include "cli/plan_flags.h"
#include "cli/plan_question.h"
#include "cli/row_lengths.h"
#include "cluster/profile/run_history.h"
#include "diagnose/profiler_trace.h"
#include "diagnose/training_log.h"
#include "ecosystem/emit.h"
#include "ecosystem/out_of_memory.h"
#include "models/recipe_names.h"
#include "models/training_method.h"
#include "planner/rollout_phases.h"
#include "report/answers.h"
#include "report/html/reports.h"
#include "report/json/answers_json.h"
#include "report/text/answers_text.h"

namespace gpuplan {
namespace {

constexpr const char* kMeasured = "What was measured";

void setup_diagnose(CLI::App& app) {
  app.add_option("files")
      ->type_name("FILE...")
      ->description("a plan saved by --save, or configurations and scripts as --from of estimate takes them")
      ->allow_extra_args()
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_flag(app, "--measured", "TIME", "of an optimizer step, when it runs evenly", kMeasured);
  add_flag(app, "--tokens-per-s", "N", "of all GPUs together, padding not counted", kMeasured);
  add_flag(app, "--peak", "SIZE", "of the fullest GPU, for example 23.1GiB", kMeasured);
  add_flag(app, "--peak-kind", "process|reserved|allocated",
           "what --peak is: nvidia-smi's, or of torch max_memory_reserved or max_memory_allocated. Default process",
           kMeasured);
  add_flag(app, "--trace", kReadTrace, "of PyTorch's profiler, packed by gzip or not; marked steps are optimizer steps",
           kMeasured);
  add_flag(app, "--log", "FILE", "what the trainer wrote: progress bars and logged figures", kMeasured);
  add_question_flags(app);
  add_row_flags(app);
  add_flag(
      app, "--learn", "",
      "keep the run beside the calibrated profile of this machine: it corrects the next estimates of this trainer");
  add_flag(
      app, "--as-point", "FILE",
      "write the plan and what was measured as a line that gpuplan validate reads, to compare again or to give away");
  add_flag(app, "--explain", "", "every cause, the parts of the step, and how the run was read");
  add_flag(app, "--html", "FILE", "write the answer as a page that works offline");
  add_force_flag(app);
  add_flag(app, "--json", "", "the answer as JSON, in base units");
}

/// Keeps what was measured as `run --engine` does (cluster/profile/run_history.h).
void learn(const Diagnosis& d, const Profile& profile, std::int64_t num_steps, Console& console) {
  if (!profile.measured || profile.file.empty())
    throw InputError("--learn", "needs a calibrated profile of this machine", "gpuplan calibrate makes one");
  if (!d.time || d.measured.tokens_per_second)
    throw InputError("--learn", "needs the time of a step", "--measured, --log or --trace say it");
  const std::int64_t ranks = d.predicted.strategy.mesh.world();
  const std::string framework = d.request.recipe.framework->name;
  const Bytes outside = d.predicted.tiers.process - d.predicted.tiers.tensors;
  add_run(profile.file, {.profile = profile.sha256,
                         .date = today(),
                         .model = d.request.model.name,
                         .strategy = d.predicted.strategy.name,
                         .method = std::string(to_string(d.request.recipe.method)),
                         .framework = framework,
                         .num_ranks = ranks,
                         .num_steps = num_steps,
                         .predicted = {.step = d.time->predicted, .outside_tensors = outside},
                         .measured = {.step = d.time->measured, .outside_tensors = outside},
                         .applied = correction_of(profile, ranks, framework)});
  console.tell(fmt::format("kept in {}: it corrects the next estimate of {} on as many GPUs",
                           run_history_file(profile.file).string(), framework));
}

bool is_training_log(const std::string& name) {
  if (!is_file(name)) return false;
  try {
    return read_training_log(*open_stream(name), name).has_time();
  } catch (const InputError&) { return false; }
}

std::optional<ConfigReading> read_named_files(const CLI::App& app) {
  const std::vector<std::string> names = all_given(app, "files");
  if (names.empty()) return std::nullopt;
  try {
    return read_configs(read_config_files(names), find_named_config);
  } catch (const InputError&) {
    for (const std::string& name : names)
      if (!is_given(app, "--log") && is_training_log(name))
        throw InputError(name, "is what a trainer wrote while it trained, and no configuration",
                         fmt::format("--log {}", shell_word(name)));
    throw;
  }
}

PeakKind given_peak_kind(const CLI::App& app) {
  const auto kind = given(app, "--peak-kind");
  if (kind && !is_given(app, "--peak"))
    throw InputError("--peak-kind", "says what --peak is", "give --peak, for example --peak 23.1GiB");
  return kind ? parse_name<PeakKind>(*kind, "--peak-kind") : PeakKind::Process;
}

/// Takes from the log what no flag says.
void add_log(MeasuredRun& run, const TrainingLog& log, const StrategyEstimate& e, std::int64_t num_gpus) {
  if (!run.has_time()) {
    run.step = log.step;
    if (!log.step && log.samples_per_second) run.step = Seconds{double(e.global_batch) / *log.samples_per_second};
    if (!run.step) run.tokens_per_second = log.tokens_per_second;
    if (!run.step && log.tokens_per_gpu) run.tokens_per_second = double(num_gpus) * *log.tokens_per_gpu;
  }
  if (run.peak || !(log.allocated || log.reserved)) return;
  run.peak = log.allocated ? log.allocated : log.reserved;
  run.peak_kind = log.allocated ? PeakKind::Allocated : PeakKind::Reserved;
}

/// PyTorch's message in the end of a log; nothing in one without it, and in one that is no file.
std::optional<OutOfMemory> out_of_memory_in(const std::string& log) {
  if (!is_file(log)) return {};
  constexpr std::int64_t kEnd = std::int64_t(1) << 20;
  const InputFile file(log);
  const std::int64_t begin = std::max<std::int64_t>(0, file.size() - kEnd);
  return find_out_of_memory(file.read(begin, file.size() - begin));
}

/// Reads a log's figures. One that has none because memory ran out is for other commands.
TrainingLog read_log(const CLI::App& app, const std::string& file) {
  const auto message = out_of_memory_in(file);
  try {
    return read_training_log(*open_stream(file), file);
  } catch (const InputError&) {
    if (!message) throw;
    std::string files;
    for (const std::string& name : all_given(app, "files")) files += shell_word(name) + " ";
    throw InputError(file, fmt::format("is of a run that ran out of memory: {}", describe(*message)),
                     files.empty() ? fmt::format("gpuplan estimate --from {} compares it with the plan of the other "
                                                 "flags; gpuplan fix TRAINER-FILE {} mends the trainer's file",
                                                 shell_word(file), shell_word(file))
                                   : fmt::format("gpuplan fix {}{} says what would fit", files, shell_word(file)));
  }
}

/// Answers and prompts are as long as the log says in the mean, unless a flag says it; where neither does, their length
/// is assumed, and that is said.
void take_lengths(const CLI::App& app, const std::optional<TrainingLog>& log, EstimateRequest& r, Console& console) {
  if (!generates(r.recipe)) return;
  Rollout& rollout = r.rollout;
  const auto take = [&](const char* flag, const std::optional<double>& logged, std::int64_t most, std::int64_t& mean) {
    if ((mean > 0 && is_given(app, flag)) || !logged) return false;
    mean = std::clamp<std::int64_t>(std::llround(*logged), 1, std::max<std::int64_t>(1, most));
    return true;
  };
  const auto of_log = [&](std::optional<double> TrainingLog::*figure) {
    return log ? (*log).*figure : std::optional<double>{};
  };
  std::vector<std::string> said;
  if (take("--prompt-len", of_log(&TrainingLog::prompt), rollout.prompt_len, rollout.mean_prompt))
    said.push_back(fmt::format("prompts of {} tokens", format_grouped(rollout.mean_prompt)));
  if (take("--completion-len", of_log(&TrainingLog::completion), rollout.max_completion, rollout.mean_completion))
    said.push_back(fmt::format("answers of {} tokens", format_grouped(rollout.mean_completion)));
  if (!said.empty()) {
    const auto usual = [](std::int64_t mean, std::int64_t most) { return mean > 0 ? mean : most; };
    r.dataset.tokens_per_row =
        usual(rollout.mean_prompt, rollout.prompt_len) + usual(rollout.mean_completion, rollout.max_completion);
    console.tell(fmt::format("{}, in the mean, as the log says", fmt::join(said, " and ")));
  }
  if (rollout.mean_completion == 0)
    console.tell(fmt::format("answers are counted as {} tokens, the longest: --completion-len MEAN,{} says their mean",
                             format_grouped(rollout.max_completion), rollout.max_completion));
}

MeasuredRun measured_run(const CLI::App& app, const StrategyEstimate& e, std::int64_t num_gpus,
                         const std::optional<TrainingLog>& log, DiagnosisAnswer& answer, std::int64_t& num_steps,
                         std::int64_t& steps_of_log) {
  MeasuredRun run;
  run.step = given_time(app, "--measured");
  run.tokens_per_second = given_number(app, "--tokens-per-s");
  if (run.step && run.tokens_per_second)
    throw InputError("", "--measured and --tokens-per-s both say the time", "give one of them");
  if (const auto peak = given(app, "--peak")) run.peak = parse_bytes(*peak, "--peak");
  run.peak_kind = given_peak_kind(app);
  if (const auto file = given(app, "--trace")) {
    run.parts = parts_of(read_profiler_trace(*file), *file);
    num_steps = run.parts->num_steps;
    answer.sources.push_back(fmt::format("{}: {} step{} on one {}{}", *file, run.parts->num_steps,
                                         run.parts->num_steps == 1 ? "" : "s", run.parts->is_of_cpu ? "CPU" : "GPU",
                                         run.parts->has_steps ? "" : " (it marks none: all of it is taken as one)"));
  }
  if (log) {
    add_log(run, *log, e, num_gpus);
    steps_of_log = log->num_steps;
    num_steps = std::max<std::int64_t>(1, log->num_figures);
    if (log->has_time()) answer.sources.push_back(fmt::format("{}: {}", *given(app, "--log"), log->source));
  }
  return run;
}

/// A step that the trainer logs may be several optimizer steps: measured and predicted are of one.
void take_one_update(MeasuredRun& run, const EstimateRequest& r, const Strategy& strategy, Console& console) {
  if (!generates(r.recipe) || !run.step || !logs_generations(r.recipe.framework->name)) return;
  const double steps = job_rollout(Job(r, strategy)).steps;
  if (steps <= 1) return;
  console.tell(
      fmt::format("a step of {} is one generation with {:g} optimizer steps, {} in all: one of them is compared",
                  r.recipe.framework->name, steps, format_duration(*run.step)));
  run.step = *run.step / steps;
}

/// Says that the trainer counts other steps than are planned, and why it may; empty: it does not.
std::string other_steps_note(std::int64_t of_log, std::int64_t planned) {
  constexpr double kAlike = 1.2;
  const double ratio = double(of_log) / double(std::max<std::int64_t>(planned, 1));
  if (of_log == 0 || planned == 0 || (ratio < kAlike && ratio * kAlike > 1)) return {};
  if (ratio > 1)
    return fmt::format(
        "the progress bar counts to {} steps, where {} are planned: fewer GPUs train together than were said (each "
        "step "
        "then takes fewer rows), or there are more rows or epochs",
        of_log, planned);
  return fmt::format(
      "the progress bar counts to {} steps, where {} are planned: more GPUs train together than were said, or there "
      "are "
      "fewer rows or epochs",
      of_log, planned);
}

int run_diagnose(const CLI::App& app, Console& console) {
  const std::optional<ConfigReading> configs = read_named_files(app);
  PlanQuestion question = read_config_question(app, console.in, configs);
  static_cast<void>(take_rows(app, question, true));
  const auto log_file = given(app, "--log");
  const std::optional<TrainingLog> log = log_file ? std::optional(read_log(app, *log_file)) : std::nullopt;
  take_lengths(app, log, question.request, console);
  const EstimateResult planned = estimate(question.request, InFull::InFocus);
  const StrategyEstimate* const shown = strategy_in_focus(planned);
  if (!shown) throw InputError("--strategy", planned.strategies.front().not_applicable, "say the strategy that ran");
  DiagnosisAnswer answer;
  answer.notes = question.notes;
  answer.is_brief = !is_given(app, "--explain") && console.screen.format == TableFormat::Text;
  std::int64_t num_steps = 1, steps_of_log = 0;
  MeasuredRun run = measured_run(app, *shown, planned.request.cluster.num_gpus(), log, answer, num_steps, steps_of_log);
  if (question.has_rows && !generates(planned.request.recipe))
    if (const std::string note = other_steps_note(steps_of_log, steps_of(planned.request, *shown)); !note.empty())
      console.tell(note);
  if (configs) run.full_length = configs->setup.seq_len.value_or(0);
  take_one_update(run, planned.request, shown->strategy, console);
  answer.diagnosis = diagnose({planned.request, planned.profile}, shown->strategy.name, run);
  console.print(is_given(app, "--json") ? json_text(diagnosis_json(answer)) : diagnosis_text(answer, console.screen));
  if (const auto file = given(app, "--html"))
    write_output(*file, diagnosis_report(answer), console, fmt::format("written to {}", *file));
  if (const auto file = given(app, "--as-point"))
    write_output(*file, own_point(planned, *shown, run), console,
                 fmt::format("written to {}; gpuplan validate {} compares it", *file, *file));
  if (is_given(app, "--learn")) learn(answer.diagnosis, planned.profile, num_steps, console);
  return 0;
}

}  // namespace

const Command kDiagnose{
    .name = "diagnose",
    .summary = "why a run is slower or larger than predicted",
    .usage =
        "[FILE...] --measured TIME | --tokens-per-s N | --peak SIZE | --trace FILE | --log "
        "FILE [OPTION]...",
    .example =
        "gpuplan diagnose plan.json --measured 1.4s\n"
        "gpuplan diagnose --model llama3-8b --qlora --gpus 2x3090 --tokens-per-s 900\n"
        "gpuplan diagnose --model llama3-8b --lora --gpus 4xA6000 --peak 30GiB",
    .first_flags = "--measured --tokens-per-s --peak --trace --log --gpus --model --strategy --json",
    .setup = setup_diagnose,
    .run = run_diagnose,
    .has_tables = true};

}  // namespace gpuplan
