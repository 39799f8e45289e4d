// gpuplan estimate: does it fit, which strategy, how fast, at what cost.
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/unit_text.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/config_files.h"
#include "cli/flag_ranges.h"
#include "cli/generate.h"
#include "cli/output_flags.h"
#include "cli/plan_flags.h"
#include "cli/plan_question.h"
#include "cli/row_lengths.h"
#include "cli/search_flags.h"
#include "diagnose/training_log.h"
#include "ecosystem/carried_keys.h"
#include "ecosystem/export.h"
#include "models/training_method.h"
#include "planner/engine_share.h"
#include "planner/plan/plan_file.h"
#include "planner/recommend.h"
#include "planner/rollout_phases.h"
#include "report/answers.h"
#include "report/html/reports.h"
#include "report/json/answers_json.h"
#include "report/text/answers_text.h"
#include "search/mesh_way.h"
#include "search/more_gpus.h"

namespace gpuplan {
namespace {

void setup_estimate(CLI::App& app) {
  add_plan_flags(app);
  add_config_flag(app);
  add_choice_flags(app);
  add_row_flags(app);
  add_flag(
      app, "--explain", "",
      "all strategies, what fills the memory, all that is assumed, and every term behind the figures with its source");
  add_flag(app, "--generate", "",
           "no training: what --rollout-engine (default vllm) holds on the GPUs and how fast it answers; --prompt-len, "
           "--completion-len, --generations and --sequences say what");
  add_flag(app, "--sequences", "N", "of --generate: answers in all. Default 256");
  add_flag(app, "--overhead", "TIME", "set-up, download and failed starts, in every time and cost. Default 0s");
  add_flag(app, "--brief", "", "one line: the verdict, the time and the cost");
  add_flag(app, "--details", "", "also the peaks of loading, evaluation and saving, per GPU and host");
  add_flag(app, "--json", "", "the answer as JSON, in base units");
  add_flag(app, "--html", "FILE", "write the answer as a page that works offline");
  add_flag(app, "--save", "FILE", "write the recommended plan, or that of --strategy; nothing when none fits");
  add_force_flag(app);
}

void save(const EstimateAnswer& answer, const CarriedSettings* carried, const std::string& file, Console& console) {
  if (!answer.fits()) {
    console.tell(fmt::format("nothing fits, so {} was not written", file));
    return;
  }
  EstimateRequest saved = answer.request;
  saved.strategy = answer.shown->strategy.name;
  write_output(
      file, json_text(make_plan(answer.request, answer.result, *answer.shown, carried, answer.overhead)), console,
      fmt::format("the {} plan is saved in {}; {}", answer.shown->strategy.name, file, export_hint(file, saved)));
}

/// Settings that a saved plan keeps of the trainer's file: also the length of its sequences, where the longest row is
/// shorter.
std::shared_ptr<const CarriedSettings> carried_of(const PlanQuestion& question,
                                                  const std::optional<ConfigReading>& configs) {
  if (!question.carried || question.stated_seq_len == 0 || !configs) return question.carried;
  for (const SettingsPart& part : configs->parts)
    if (const auto key = part.keys_of.find("seq_len");
        key != part.keys_of.end() && part.table->name == question.carried->trainer)
      return std::make_shared<const CarriedSettings>(
          with_length(*question.carried, key->second, question.stated_seq_len));
  return question.carried;
}

/// Names a mesh where the trainer divides layers, nobody said how, and one is better.
void add_better_mesh(EstimateAnswer& answer) {
  std::optional<BetterWay> way = better_mesh(answer.result, answer.shown);
  if (!way || !answer.result.recommended) return;
  Recommendation& out = *answer.result.recommended;
  if (answer.fits()) {
    out.better.insert(out.better.begin(), std::move(*way));
    return;
  }
  std::erase(out.advice, kNothingHelps);
  out.advice.insert(out.advice.begin(),
                    fmt::format("{}: then {} fits, {} tokens/s", fmt::join(way->flags, " "), way->plan.strategy.title(),
                                format_grouped(std::llround(way->plan.tokens_per_second))));
}

/// Names more GPUs where the plan rests on offload that makes it far slower than they would be.
void add_more_gpus(EstimateAnswer& answer, const EstimateRequest& asked) {
  const Offload& offload = answer.request.recipe.offload;
  const bool rests_on_offload = offload.optimizer != OffloadTarget::None || offload.params != OffloadTarget::None;
  if (!rests_on_offload || !answer.fits() || !answer.shown || !answer.result.recommended) return;
  if (auto way = more_gpus(asked, *answer.shown)) answer.result.recommended->better.push_back(std::move(*way));
}

/// Names `fix` where a trainer's files do not fit as they are and it can write in them.
void add_fix(EstimateAnswer& answer, const CLI::App& app, const std::optional<ConfigReading>& configs) {
  const auto gpus = given(app, "--gpus");
  if (!configs || !configs->has_trainer || configs->plan || answer.fits() || !gpus || !answer.result.recommended)
    return;
  std::string words;
  for (const std::string& name : all_given(app, "--from")) {
    if (name.ends_with(".py") || name.ends_with(".ipynb")) return;
    words += " " + shell_word(name);
  }
  if (const auto method = given(app, "--method")) words += " --method " + shell_word(*method);  // that they do not say
  std::vector<std::string>& advice = answer.result.recommended->advice;
  advice.insert(advice.begin(),
                fmt::format("gpuplan fix{} --gpus {}: the keys of the file to change", words, shell_word(*gpus)));
}

/// A rented machine is paid for until it trains, too.
void add_overhead(EstimateResult& result, Seconds overhead) {
  const auto add = [&](StrategyEstimate& e) {
    if (!e.total || e.total->value <= 0) return;
    const Seconds all = *e.total + overhead;
    if (e.cost_usd) *e.cost_usd *= all / *e.total;
    e.total = all;
  };
  for (StrategyEstimate& e : result.strategies) add(e);
  if (result.recommended)
    for (BetterWay& way : result.recommended->better) add(way.plan);
}

/// Answers that the files of a trainer generate at once; 0: they generate none.
std::int64_t answers_of_files(const std::optional<ConfigReading>& configs, const EstimateRequest& r) {
  if (!configs || !configs->has_trainer || !generates(r.recipe)) return 0;
  if (r.rollout.sequences > 0) return r.rollout.sequences;
  const std::int64_t ranks = configs->setup.num_processes.value_or(r.cluster.num_gpus());
  return r.recipe.rows() * r.recipe.grad_accum * ranks * r.rollout.updates;
}

int run_estimate(const CLI::App& app, Console& console) {
  const std::optional<ConfigReading> configs = given_configs(app);
  PlanQuestion question = read_config_question(app, console.in, configs);
  if (configs)
    for (const std::string& mistake : mistakes_in(*configs)) console.tell(mistake);
  if (is_given(app, "--generate")) {
    const GenerationAnswer answer =
        answer_generation(app, question.request, answers_of_files(configs, question.request));
    console.print(is_given(app, "--json") ? json_text(generation_json(answer))
                                          : generation_text(answer, console.screen));
    return answer.fits() ? 0 : 1;
  }
  if (is_given(app, "--sequences")) throw InputError("--sequences", "is of --generate", "leave it out");
  const bool says_seq_len = given(app, "plan") || (configs && (configs->plan || configs->setup.seq_len));
  const std::optional<GivenRows> rows = take_rows(app, question, says_seq_len);
  set_choice(app, question.request);
  if (rows && rows->sets_seq_len)
    question.notes.push_back(fmt::format("sequences of {} tokens, as long as the longest row; --seq-len sets it",
                                         question.request.recipe.seq_len));
  EstimateAnswer answer{.request = std::move(question.request), .result = {}, .explanation = {}, .rows = {}};
  const bool shows_all = is_given(app, "--json") || is_given(app, "--html");
  const EstimateRequest asked = answer.request;
  answer.result = estimate(answer.request, shows_all ? InFull::All : InFull::InFocus);
  answer.request = answer.result.request;
  if (const Seconds overhead = given_time(app, "--overhead").value_or(question.set_up); overhead.value > 0) {
    add_overhead(answer.result, overhead);
    answer.overhead = overhead;
    question.notes.push_back(fmt::format("{:.3g} min of set-up, download and failed starts are in every time and cost",
                                         overhead.value / 60));
  }
  answer.result.assumptions.insert(answer.result.assumptions.begin(), question.notes.begin(), question.notes.end());
  answer.shown = strategy_in_focus(answer.result);
  if (!answer.shown) throw no_strategy(answer.result);
  add_better_mesh(answer);
  add_more_gpus(answer, asked);
  add_fix(answer, app, configs);
  if (rows && answer.shown) {
    EstimateRequest whole = answer.request;
    if (question.stated_seq_len > 0) whole.recipe.seq_len = question.stated_seq_len;
    answer.rows = fit_rows(rows->lengths, whole, answer.result.profile, *answer.shown);
    answer.rows->source = rows->source;
  }
  if (answer.shown && generates(answer.request.recipe) && logs_generations(answer.request.recipe.framework->name))
    answer.steps_per_logged = job_rollout(Job(answer.request, answer.shown->strategy)).steps;
  answer.num_notes = question.notes.size();
  answer.has_rows = question.has_rows;
  answer.stated_seq_len = question.stated_seq_len;
  answer.data_words = question.data_words;
  if (configs && question.has_rows && answer.shown && !generates(answer.request.recipe))
    if (std::string few = few_steps_note(*configs, steps_of(answer.request, *answer.shown)); !few.empty()) {
      ++answer.num_notes;
      answer.result.assumptions.insert(answer.result.assumptions.begin(), std::move(few));
    }
  if (configs && answer.shown)
    if (std::string highest = evaluation_note(*configs, answer.request, *answer.shown); !highest.empty()) {
      ++answer.num_notes;
      answer.result.assumptions.insert(answer.result.assumptions.begin(), std::move(highest));
    }
  answer.caveat = question.caveat;
  if (configs && answer.caveat.empty()) answer.caveat = configs->older_defaults;
  if (answer.shown)
    if (std::string share = assumed_engine_share(answer.request, *answer.shown); !share.empty()) {
      ++answer.num_notes;
      answer.result.assumptions.insert(answer.result.assumptions.begin(), std::move(share));
    }
  if (configs && configs->out_of_memory && answer.shown) {
    ++answer.num_notes;
    answer.result.assumptions.insert(answer.result.assumptions.begin(),
                                     compare_with(*configs->out_of_memory, answer.shown->tiers.process,
                                                  answer.shown->memory_range, answer.shown->strategy.name));
  }
  answer.has_details = is_given(app, "--details");
  answer.is_brief = !answer.has_details && !is_given(app, "--explain");
  if (is_given(app, "--explain") && answer.shown)
    answer.explanation = explain(answer.request, answer.result, *answer.shown);
  console.print(is_given(app, "--json")    ? json_text(estimate_json(answer))
                : is_given(app, "--brief") ? brief_text(answer)
                                           : estimate_text(answer, console.screen));
  if (const auto file = given(app, "--html"))
    write_output(*file, estimate_report(answer, console.command_line), console, fmt::format("written to {}", *file));
  if (const auto file = given(app, "--save")) save(answer, carried_of(question, configs).get(), *file, console);
  return answer.fits() ? 0 : 1;
}

}  // namespace

const Command kEstimate{.name = "estimate",
                        .summary = "does it fit, which strategy, how fast, at what cost",
                        .usage = "[PLAN.json] --model MODEL [--full | --lora | --qlora] --gpus GPUS [OPTION]...",
                        .example =
                            "gpuplan estimate --model llama3-8b --lora r=8 --gpus 4xA6000\n"
                            "gpuplan estimate --model llama3-8b --full --gpus 8xH100 --save plan.json\n"
                            "gpuplan estimate plan.json --seq-len 1024 --explain",
                        .first_flags =
                            "--model --from --gpus --lora --qlora --full --seq-len --micro-batch --checkpointing "
                            "--strategy --explain --save --json",
                        .setup = setup_estimate,
                        .run = run_estimate,
                        .has_tables = true};

}  // namespace gpuplan
