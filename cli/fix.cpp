// gpuplan fix: a trainer's own files changed so that they fit, or train faster or cheaper.
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "base/unit_text.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/config_files.h"
#include "cli/fix_text.h"
#include "cli/mended_files.h"
#include "cli/output_flags.h"
#include "cli/plan_flags.h"
#include "cli/plan_question.h"
#include "cli/row_lengths.h"
#include "cli/search_flags.h"
#include "models/stack.h"
#include "models/training_method.h"
#include "planner/rollout_phases.h"
#include "report/text/answers_text.h"

namespace gpuplan {
namespace {

void setup_fix(CLI::App& app) {
  app.add_option("files")
      ->type_name("FILE...")
      ->description("configurations and scripts as --from of estimate takes them; those named here may change")
      ->allow_extra_args()
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_surrounding_flags(app);
  add_row_flags(app);
  add_flag(app, "--goal", "fits|fast|cheap",
           "fits: the least change that does; fast, cheap: also where it fits already. Default fits");
  add_flag(
      app, "--allow", "LIST",
      "what may change too: context (shorter sequences), batch (fewer of them a step), method (full, LoRA, QLoRA)");
  add_flag(app, "--write", "", "change the files; FILE.orig keeps each as it was");
  add_flag(app, "--output", "FILE", "write the changed file there instead; a folder where several change");
  add_force_flag(app);
}

Allowed parse_allowed(const std::string& list) {
  Allowed allowed;
  for (const std::string& word : split(list, ',')) {
    if (word == "context")
      allowed.context = true;
    else if (word == "batch")
      allowed.batch = true;
    else if (word == "method")
      allowed.method = true;
    else
      throw InputError("--allow", fmt::format("'{}' is nothing that can be allowed", word), "context, batch, method");
  }
  return allowed;
}

/// Reads files as `estimate --from` does, with the flags of the call.
class FilesReader {
 public:
  FilesReader(const CLI::App& app, Console& console) : app_(app), console_(console) {}

  ReadFiles read(const std::vector<ConfigFile>& files) {
    const auto find = [&](const std::string& named, const std::string& by) -> std::optional<ConfigFile> {
      for (const ConfigFile& file : files)  // one that fix itself would write beside them
        if (file.name == named || file.name == by.substr(0, by.rfind('/') + 1) + named) return file;
      return find_named_config(named, by);
    };
    std::vector<ConfigFile> given = files;
    if (num_given_ > 0) given.resize(num_given_);
    const auto versions = gpuplan::given(app_, "--versions"), method = gpuplan::given(app_, "--method");
    const auto objective = method ? words_of_method(*method).trained_for : std::nullopt;
    ReadFiles out{.files = files,
                  .reading = read_configs(given, find, versions ? parse_stack_versions(*versions) : StackVersions{},
                                          objective ? find_training_method(*objective).name : std::string(), {},
                                          num_given_ == 0 ? Broken::Mended : Broken::Refused, said_beside(app_)),
                  .request = {}};
    if (!out.reading.has_trainer)
      throw InputError(out.reading.plan ? out.reading.plan->name : out.reading.file, "is no trainer's configuration",
                       "give the trainer's file too: what is trained, on how many tokens");
    refuse_other_method(out.reading);
    out.why_refused = out.reading.why_mended;
    PlanQuestion question = ask(out, num_given_ == 0);
    num_given_ = given.size();
    static_cast<void>(take_rows(app_, question, true));
    out.rows = std::move(question.rows);
    out.request = std::move(question.request);
    has_rows_ = question.has_rows;
    return out;
  }

  /// True where files or flags say how much is trained on.
  bool has_rows() const { return has_rows_; }

 private:
  /// `mends`: a micro batch that the trainer would refuse gives way.
  PlanQuestion ask(ReadFiles& files, bool mends) {
    try {
      return read_config_question(app_, console_.in, files.reading);
    } catch (const InputError& error) {
      files.reading.mends_micro_batch = mends;
      if (!mends) throw;
      files.why_refused = error.problem();
      return ask_again(files);
    }
  }

  /// A refusal that nothing mends is told without the flags that estimate has and fix has not.
  PlanQuestion ask_again(ReadFiles& files) {
    try {
      return read_config_question(app_, console_.in, files.reading);
    } catch (const InputError& error) {
      std::string hint = error.hint();
      constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kInstead{
          {{"--global-batch", "a global batch of"}, {"--rollout-engine with tp=1", "an engine on each GPU"}}};
      for (const auto& [flag, words] : kInstead)
        if (const std::size_t at = hint.find(flag); at != std::string::npos) hint.replace(at, flag.size(), words);
      throw InputError(error.where(), error.problem(), hint);
    }
  }

  /// A flag says what is trained where the files leave it open; else they do.
  void refuse_other_method(const ConfigReading& reading) const {
    if (!reading.open_method.empty()) return;
    for (const char* flag : {"--full", "--lora", "--qlora"})
      if (is_given(app_, flag))
        throw InputError(flag, "is for a script that does not say what it trains, and these files do",
                         "--allow method lets fix change it");
  }

  const CLI::App& app_;
  Console& console_;
  std::size_t num_given_ = 0;
  bool has_rows_ = false;
};

/// "1,000 rows of 512 tokens", and that they are assumed where nothing says them.
std::string data_text(const EstimateRequest& r, bool has_rows) {
  if (generates(r.recipe))
    return fmt::format("{} prompts with {} answers each, {} tokens{}{}", format_grouped(r.dataset.rows),
                       answers_of_row(r), format_count(total_tokens(r)), full_length_words(r, has_rows),
                       has_rows ? "" : " (assumed: --rows)");
  const std::int64_t tokens = r.dataset.tokens_per_row > 0 ? r.dataset.tokens_per_row : r.recipe.seq_len;
  const char* assumed = !has_rows                       ? " (assumed: --rows, --lengths)"
                        : r.dataset.tokens_per_row == 0 ? " (full length assumed: --tokens-per-row)"
                                                        : "";
  return fmt::format("{} rows of {} tokens, {:g} epoch{}{}", format_grouped(r.dataset.rows), format_grouped(tokens),
                     r.dataset.epochs, r.dataset.epochs == 1 ? "" : "s", assumed);
}

/// Says which strategy is counted of files that name none, and the commands that write a file which does, where a plan
/// of them fits.
std::string counted_note(const CLI::App& app, const FixAnswer& answer, const std::vector<std::string>& names) {
  std::string text = fmt::format(
      "the files do not say how the training is started, and {} is counted; accelerate's file says it", answer.counted);
  if (!answer.fits()) return text;
  std::string flags;
  for (const std::string& name : names) flags += " --from " + shell_word(name);
  for (const PlanFlag& flag : plan_flags())
    if (const auto value = given(app, flag.name)) flags += " " + flag_words(flag, *value);
  return text + fmt::format(
                    ", which these write{}: gpuplan estimate{} --strategy {} --save plan.json, then gpuplan export "
                    "plan.json --for accelerate; given beside the others, fix mends it with them",
                    answer.after ? " once the files are changed" : "", flags,
                    answer.after ? answer.after->strategy.name : answer.counted);
}

int run_fix(const CLI::App& app, Console& console) {
  const std::vector<std::string> names = all_given(app, "files");
  if (names.empty()) throw InputError("", "a file is needed", "gpuplan fix axolotl.yaml --gpus 2x3090");
  if (is_given(app, "--write") && is_given(app, "--output"))
    throw InputError("", "--write and --output contradict each other", "give one of them");
  FilesReader reader(app, console);
  FixQuestion question;
  question.given = reader.read(read_config_files(names));
  for (const std::string& mistake : mistakes_in(question.given.reading)) console.tell(mistake);
  question.profile = profile_of(question.given.request);
  if (const auto goal = given(app, "--goal")) question.goal = parse_name<Goal>(*goal, "--goal");
  if (const auto list = given(app, "--allow")) question.allowed = parse_allowed(*list);
  question.read = [&](const std::vector<ConfigFile>& files) { return reader.read(files); };
  FixAnswer answer = find_fix(question);
  const EstimateRequest& asked = answer.asks ? *answer.asks : question.given.request;
  const StrategyEstimate* const plan = answer.after ? &*answer.after : answer.before ? &*answer.before : nullptr;
  if (plan && reader.has_rows() && !generates(asked.recipe))
    if (std::string few = few_steps_note(question.given.reading, steps_of(asked, *plan)); !few.empty())
      answer.notes.push_back(std::move(few));
  if (!answer.counted.empty()) answer.notes.insert(answer.notes.begin(), counted_note(app, answer, names));
  console.print(fix_text(answer, question, data_text(asked, reader.has_rows()), console.screen));
  // as estimate has it, of a host whose memory nobody said
  const bool fits_if_host = answer.before && answer.before->fit == Fit::IfHost && answer.not_started.empty();
  if (answer.mended.files.empty()) return answer.fits() || fits_if_host ? 0 : 1;
  if (!is_given(app, "--write") && !is_given(app, "--output"))
    if (const std::string next = next_step(answer); !next.empty()) console.tell(next);
  if (is_given(app, "--write")) write_in_place(answer.mended, console);
  if (const auto place = given(app, "--output"))
    write_elsewhere(answer.mended, *place, is_given(app, "--force") ? Replaces::Everything : Replaces::Nothing,
                    console);
  return answer.fits() ? 0 : 1;
}

}  // namespace

const Command kFix{.name = "fix",
                   .summary = "a trainer's own files, changed so that they fit",
                   .usage = "FILE... --gpus GPUS [--write] [--goal fits|fast|cheap] [--allow LIST]",
                   .example =
                       "gpuplan fix axolotl.yaml --gpus 2x3090\n"
                       "gpuplan fix full.yaml zero.json --gpus 4xA6000 --goal fast\n"
                       "gpuplan fix train.sh --gpus A6000 --allow batch,context --write",
                   .first_flags = "--gpus --goal --allow --rows --write --output --model",
                   .setup = setup_fix,
                   .run = run_fix};

}  // namespace gpuplan
