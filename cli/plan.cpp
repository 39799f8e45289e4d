// gpuplan plan: what to rent and how to run it, from what the user wants.
#include <cmath>
#include <csignal>
#include <ostream>

#include <fmt/format.h>
#include <unistd.h>

#include "base/child_process.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "base/narrow.h"
#include "base/unit_text.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/config_files.h"
#include "cli/flag_ranges.h"
#include "cli/output_flags.h"
#include "cli/plan_defaults.h"
#include "cli/plan_flags.h"
#include "cli/search_flags.h"
#include "ecosystem/export.h"
#include "models/catalogue.h"
#include "planner/estimate.h"
#include "planner/plan/plan_file.h"
#include "report/answers.h"
#include "report/html/reports.h"
#include "report/json/answers_json.h"
#include "report/text/answers_text.h"
#include "search/largest.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kUsualRows = 4;

void setup(CLI::App& app) {
  add_plan_flags(app);
  tell_what_is_searched(app);
  add_config_flag(app);
  add_search_flags(app);
  add_flag(app, "--explain", "",
           "the command of every row, other GPUs, what each change is worth, all that is assumed");
  add_flag(app, "--json", "", "the answer as JSON, in base units");
  add_flag(app, "--html", "FILE", "write a page with the plans as a chart; it works offline");
  add_flag(app, "--save", "FILE", "write the recommended plan; nothing when there is none");
  add_force_flag(app);
}

/// A handler of signals can reach nothing else.
std::atomic<bool> stop_asked{false};

void ask_to_stop(int signal) {
  if (stop_asked.exchange(true)) {  // asked twice: now
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

/// On a terminal: how far the search is, and Ctrl-C for the best so far.
class Progress {
 public:
  explicit Progress(Console& console) : console_(console) {
    stop_asked = false;
    if (is_terminal(StandardStream::Err)) handlers_.emplace(ask_to_stop, std::initializer_list<int>{SIGINT});
  }
  ~Progress() {
    if (shown_ >= 0) console_.err << "\r\033[K" << std::flush;
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  SearchOptions options() {
    SearchOptions out;
    if (!handlers_) return out;
    out.stop = &stop_asked;
    out.progress = [this](double share) { show(narrow<int>(std::lround(100 * share))); };
    return out;
  }

 private:
  void show(int percent) {
    if (percent <= shown_) return;
    shown_ = percent;
    console_.err << fmt::format("\r\033[Ksearching: {} %  (Ctrl-C: the best so far)", percent) << std::flush;
  }

  Console& console_;
  std::optional<SignalHandlers> handlers_;
  int shown_ = -1;
};

void save(const PlanAnswer& answer, const CarriedSettings* carried, const std::string& file, Console& console) {
  if (!answer.found.has_plan()) {
    console.tell(fmt::format("there is no plan, so {} was not written", file));
    return;
  }
  const EstimateRequest& request = answer.found.rows.front().request;
  const EstimateResult result = estimate(request);
  write_output(
      file, json_text(make_plan(request, result, result.strategies.front(), carried, answer.question.overhead)),
      console, fmt::format("the {} plan is saved in {}; {}", request.strategy, file, export_hint(file, request)));
}

void need_machine(const CLI::App& app, const char* flag) {
  if (is_given(app, "--gpus") || is_given(app, "--cluster")) return;
  throw InputError(flag, "needs a machine", "add for example --gpus 2x3090");
}

int run_largest(const CLI::App& app, Console& console) {
  need_machine(app, "--largest");
  const AskedSearch asked = read_search(app, console.in, false);
  const std::vector<std::int64_t> contexts = is_given(app, "--seq-len")
                                                 ? std::vector{asked.question.base.recipe.seq_len}
                                                 : std::vector<std::int64_t>{2048, 8192, 32768, 131072};
  Progress progress(console);
  LargestTable table = largest_models(asked.question, contexts, list_catalogue(), progress.options());
  const bool has_rows = !table.rows.empty();
  console.print(is_given(app, "--json")
                    ? json_text(largest_json(table, asked.question))
                    : largest_text(table, asked.question, !is_given(app, "--explain"), console.screen));
  return has_rows ? 0 : 1;
}

/// Sets what is to be as large as it can, and says so; nothing when not even the smallest fits.
std::optional<std::string> set_largest(const CLI::App& app, AskedSearch& asked, const SearchOptions& options) {
  const std::string what = given(app, "--max").value_or("");
  SearchQuestion& q = asked.question;
  Recipe& recipe = q.base.recipe;
  if (what == "context") {
    const auto tokens = longest_context(q, options);
    if (!tokens) return std::nullopt;
    recipe.seq_len = *tokens;
    asked.given += fmt::format(" --seq-len {}", *tokens);
    if (q.pinned.insert("micro-batch").second) {
      recipe.micro_batch = 1;
      asked.given += " --micro-batch 1";
    }
    return fmt::format("{} tokens are the longest sequence that fits well, in steps of 256", format_grouped(*tokens));
  }
  const auto batch = largest_batch(q, options);
  if (!batch) return std::nullopt;
  recipe.micro_batch = *batch;
  recipe.grad_accum = 1;
  asked.given += fmt::format(" --micro-batch {} --grad-accum 1", *batch);
  q.pinned.insert({"micro-batch", "grad-accum"});
  return fmt::format("{} sequences per GPU and pass are the most that fit well", *batch);
}

void check_max(const CLI::App& app) {
  const auto what = given(app, "--max");
  if (!what) return;
  if (*what != "context" && *what != "batch" && *what != "model")
    throw InputError("--max", fmt::format("'{}' cannot be asked for", *what), "context, batch or model");
  need_machine(app, "--max");
  if (*what == "context" && is_given(app, "--seq-len"))
    throw InputError("", "--max context and --seq-len contradict each other", "leave one of them out");
  if (*what == "batch")
    for (const char* flag : {"--micro-batch", "--grad-accum", "--global-batch"})
      if (is_given(app, flag))
        throw InputError("", fmt::format("--max batch and {} contradict each other", flag), "leave one of them out");
}

/// Says of a question all of whose plans are refused what `estimate` says of it: a flag is wrong, and no limit.
void check_refused(const CLI::App& app, const SearchAnswer& found) {
  if (!found.refused) return;
  EstimateRequest asked = *found.refused;
  set_global_batch(app, asked);
  const EstimateResult result = estimate(asked, InFull::InFocus);
  if (!strategy_in_focus(result)) throw no_strategy(result);
}

int run(const CLI::App& app, Console& console) {
  const auto most = std::size_t(given_integer(app, "--top").value_or(kUsualRows));
  check_max(app);
  if (is_given(app, "--largest") || given(app, "--max") == "model") return run_largest(app, console);
  AskedSearch asked = read_search(app, console.in, true);
  PlanAnswer out;
  {
    Progress progress(console);
    const auto largest =
        is_given(app, "--max") ? set_largest(app, asked, progress.options()) : std::optional<std::string>("");
    if (!largest || !largest->empty()) asked.notes.push_back(largest.value_or("nothing fits well, whatever is tried"));
    out = {.question = std::move(asked.question),
           .found = {},
           .notes = std::move(asked.notes),
           .largest = largest.value_or(""),
           .command = console.command_line,
           .is_brief = !is_given(app, "--explain"),
           .has_rows = asked.has_rows,
           .data_words = asked.data_words};
    out.found = answer(out.question, asked.given, most, progress.options());
  }
  check_refused(app, out.found);
  if (const auto file = given(app, "--html"))
    write_output(*file, plan_report(out), console, fmt::format("written to {}", *file));
  console.print(is_given(app, "--json") ? json_text(plan_json(out)) : plan_text(out, console.screen));
  if (const auto file = given(app, "--save")) save(out, asked.carried.get(), *file, console);
  return out.found.has_plan() ? 0 : 1;
}

}  // namespace

const Command kPlan{
    .name = "plan",
    .summary = "what to rent and how to run it, from what you want",
    .usage = "--model MODEL [--gpus GPUS] [--under TIME] [--budget USD] [OPTION]...",
    .example =
        "gpuplan plan --model llama3-8b --rows 50000 --tokens-per-row 800 --epochs 3 --under 6h --budget 100\n"
        "gpuplan plan --model llama-3.1-70b --method any --gpus 4xA6000\n"
        "gpuplan plan --largest --gpus 2x3090 --qlora --seq-len 4096",
    .first_flags =
        "--model --lora --full --from --gpus --seq-len --under --budget --min --max --largest --top --json --html "
        "--save",
    .setup = setup,
    .run = run,
    .has_tables = true};

}  // namespace gpuplan
