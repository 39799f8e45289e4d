// What `estimate` says first: verdict, what was chosen, time and money, the question, the strategies that matter, what
// fills the memory, and as much advice as one screen holds. The rest is behind --explain.
#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/unit_text.h"
#include "planner/recommend.h"
#include "planner/rollout_phases.h"
#include "report/text/amounts.h"
#include "report/text/answers_text.h"
#include "report/text/line_budget.h"
#include "report/text/text.h"

namespace gpuplan {

std::string fits_words(const StrategyEstimate& shown, bool fits) {
  if (!fits) return "does not fit";
  const std::string fits_gpus =
      shown.fit_on_gpus() == Fit::Tight ? fmt::format("fits tightly ({:.0f} %)", 100 * shown.chance) : "fits";
  return shown.fit == Fit::IfHost ? fmt::format("{} if the host has {}", fits_gpus, format_bytes(shown.host.needed()))
                                  : fits_gpus;
}

namespace {

/// "2,072 tokens/s, $5.44".
std::string speed_and_cost(const StrategyEstimate& e) {
  return fmt::format("{} tokens/s{}", format_grouped(std::llround(e.tokens_per_second)),
                     e.cost_usd ? ", " + format_usd(*e.cost_usd) : "");
}

}  // namespace

std::string chosen_words(const EstimateAnswer& answer) {
  const ChosenFreely& chosen = answer.result.chosen;
  if (chosen.flags.empty()) return "";
  const std::string usual = !chosen.usual ? "nothing fits"
                                          : fmt::format("{}{}, {}", chosen.usual->strategy.name,
                                                        chosen.usual->fit == Fit::Yes ? "" : ", which may not fit",
                                                        speed_and_cost(*chosen.usual));
  return fmt::format("{} (without {}: {}; --as-given)", fmt::join(chosen.flags, " "),
                     chosen.flags.size() == 1 ? "it" : "them", usual);
}

std::vector<std::string> better_lines(const EstimateAnswer& answer) {
  std::vector<std::string> out;
  for (const BetterWay& way : answer.result.recommended->better)
    out.push_back(fmt::format("Better: {} → {}{}, {} (asked: {}, {})", fmt::join(way.flags, " "),
                              way.plan.strategy.title(), way.plan.fit == Fit::Tight ? " (tight)" : "",
                              speed_and_cost(way.plan), answer.shown->strategy.name, speed_and_cost(*answer.shown)));
  return out;
}

std::string meaning_of(const Strategy& strategy) {
  if (strategy.takes_turns()) return "layers spread over the GPUs, which take turns";
  const bool is_hybrid = strategy.layout.shards_weights && strategy.mesh.copies() > 1;
  return is_hybrid ? "sharded over a group of GPUs, a copy in each group" : "";
}

std::string words_of_table(const EstimateAnswer& answer, const std::vector<const StrategyEstimate*>& rows) {
  std::vector<std::string> words;
  for (const StrategyEstimate* e : rows)
    if (const std::string meaning = meaning_of(e->strategy); !meaning.empty() && e != answer.shown)
      words.push_back(fmt::format("{}: {}", e->strategy.name, meaning));
  if (std::ranges::any_of(rows, [](auto* e) { return e->communication_level != CommunicationLevel::None; }))
    words.emplace_back("sent low, medium, high: how much of a step the links are busy");
  return fmt::format("{}", fmt::join(words, "; "));
}

std::string older_fsdp_words(const EstimateRequest& request, const Strategy& strategy) {
  const bool is_older = strategy.engine == ShardingEngine::Fsdp1 && !request.options.fsdp_version;
  return is_older ? " by FSDP1" : "";
}

std::string title_in_words(const Strategy& strategy) {
  const std::string meaning = meaning_of(strategy);
  return strategy.title() + (meaning.empty() ? "" : fmt::format(" ({})", meaning));
}

namespace {

std::string verdict_line(const EstimateAnswer& answer) {
  const bool is_auto = answer.request.strategy == "auto";
  const std::string chosen = chosen_words(answer);
  const StrategyEstimate& e = *answer.shown;
  if (answer.fits())
    return fmt::format("★ {}{} {}{}", title_in_words(e.strategy), older_fsdp_words(answer.request, e.strategy),
                       fits_words(e, true), chosen.empty() ? "" : ", with " + chosen);
  return fmt::format("{}{}: {}{}", is_auto ? "Nothing fits" : e.strategy.name + " does not fit",
                     chosen.empty() ? "" : ", not with " + chosen, is_auto ? e.strategy.name + " " : "", e.why_not_yes);
}

std::string time_line(const EstimateAnswer& answer) {
  const StrategyEstimate& e = *answer.shown;
  const Dataset& data = answer.request.dataset;
  std::string text = fmt::format("{} a step, {} tokens/s", with_range(e.time.step, e.time_range),
                                 format_grouped(std::llround(e.tokens_per_second)));
  if (!e.total) return text;
  const char* const rows = answer.has_rows ? "rows" : "assumed rows (--rows)";
  constexpr double kFewSteps = 100;  // so few that warm-up, saving and a schedule of learning rates depend on them
  const double steps = double(e.steps_per_epoch) * data.epochs;
  const std::int64_t answers = answers_of_row(answer.request);
  const double trains = (*e.total - answer.overhead).value;
  const double full = trains / (std::ceil(steps) * e.time.step.value);  // of a step, in the mean over them
  std::string count = fmt::format(", {:.0f} step{}", std::ceil(steps), steps > 1 ? "s" : "");
  if (!answer.data_words.empty()) count = fmt::format(", {}", answer.data_words);
  constexpr double kHardlyFull = 0.75;
  if (full < kHardlyFull) count += fmt::format(" that the data fills to {:.0f} %", 100 * full);
  text += fmt::format("; {:g} epoch{} of {} {}{}, {} tokens{}{}: {}", data.epochs, data.epochs == 1 ? "" : "s",
                      format_grouped(data.rows), rows, answers > 1 ? fmt::format(" with {} answers each", answers) : "",
                      format_count(total_tokens(answer.request)), full_length_words(answer.request, answer.has_rows),
                      steps < kFewSteps || !answer.data_words.empty() ? count : "",
                      with_range(*e.total, e.time_range) + set_up_words(answer.overhead));
  return e.cost_usd ? text + ", " + usd_with_range(*e.cost_usd, e.time_range) : text;
}

/// "A step: generation 7.20 s, pass with gradients 244 ms", the longest phase first; empty of supervised fine-tuning.
std::string phases_line(const EstimateAnswer& answer) {
  const StrategyEstimate& e = *answer.shown;
  std::vector<const PhaseFigures*> phases;
  for (const PhaseFigures& phase : e.phases)
    if (!phase.is_before_training) phases.push_back(&phase);
  if (phases.size() < 2) return "";
  std::ranges::stable_sort(phases, std::greater{}, [](const PhaseFigures* p) { return p->time.step.value; });
  constexpr std::size_t kMost = 4;
  std::vector<std::string> words;
  for (const PhaseFigures* phase : phases)
    if (words.size() < kMost)
      words.push_back(fmt::format("{} {}{}", phase->name, format_short_duration(phase->time.step),
                                  phase->beside.value > 0 ? " beside training" : ""));
  if (phases.size() > kMost) words.emplace_back("and shorter ones");
  const double logged = answer.steps_per_logged;
  return fmt::format("A step: {}{}", fmt::join(words, ", "),
                     logged > 1
                         ? fmt::format("; {} logs {:g} of these as one, {}", answer.request.recipe.framework->name,
                                       logged, format_short_duration(logged * e.time.step))
                         : "");
}

/// The recommended one, then those that come nearest to it, in the order of the answer.
std::vector<const StrategyEstimate*> main_rows(const EstimateAnswer& answer, std::size_t most) {
  std::vector<const StrategyEstimate*> rows;
  for (const StrategyEstimate& e : answer.result.strategies)
    if (e.not_applicable.empty()) rows.push_back(&e);
  std::vector<const StrategyEstimate*> best = rows;
  const auto key = [&](const StrategyEstimate* e) {
    const double behind =
        rank_of(*e) > 0 ? score_of(*e, answer.request.preference) : double((e->tiers.needed - e->tiers.usable).count);
    return std::tuple(e != answer.shown, -rank_of(*e), behind);
  };
  std::ranges::stable_sort(best, [&](auto* a, auto* b) { return key(a) < key(b); });
  if (best.size() > most) best.resize(most);
  std::erase_if(rows, [&](const StrategyEstimate* e) { return std::find(best.begin(), best.end(), e) == best.end(); });
  return rows;
}

std::string memory_line(const StrategyEstimate& e) {
  constexpr double kVisible = 0.02;
  const Bytes given_back = e.tiers.process - shown_memory(e);
  auto memory = e.memory;
  Bytes& cache = memory[std::size_t(Category::Allocator)];
  cache = std::max(Bytes{}, cache - given_back);
  std::vector<Category> order;
  Bytes rest;
  for (int c = 0; c < kNumCategories; ++c) {
    const Bytes bytes = memory[std::size_t(c)];
    if (bytes / e.tiers.process >= kVisible)
      order.push_back(Category(c));
    else
      rest += bytes;
  }
  std::ranges::stable_sort(order,
                           [&](Category a, Category b) { return memory[std::size_t(a)] > memory[std::size_t(b)]; });
  std::string text;
  for (const Category c : order)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", in_words(c), format_bytes(memory[std::size_t(c)]));
  if (rest.count > 0) text += fmt::format(", other {}", format_bytes(rest));
  const std::string of = format_bytes(e.tiers.usable);
  if (given_back.count > 0 && shown_memory(e) > e.tiers.usable)
    return fmt::format("Memory of a GPU: {} of {} ({} where a card has more: cache that gives way): {}",
                       format_bytes(shown_memory(e)), of, format_bytes(e.tiers.process), text);
  return given_back.count > 0
             ? fmt::format("Memory of a GPU: all {} ({} where a card has more: cache that gives way): {}", of,
                           format_bytes(e.tiers.process), text)
             : fmt::format("Memory of a GPU: {} of {}: {}", with_range(e.tiers.process, e.memory_range), of, text);
}

std::string limits_line(const StrategyEstimate& e) {
  if (!e.max_micro_batch || !e.max_seq_len) return "";
  return fmt::format("Fits up to micro batch {}, or {} tokens per sequence.", format_grouped(*e.max_micro_batch),
                     format_grouped(*e.max_seq_len));
}

}  // namespace

std::string brief_text(const EstimateAnswer& answer) {
  return verdict_line(answer) + (answer.fits() ? "; " + time_line(answer) : "") + "\n";
}

std::string first_screen_text(const EstimateAnswer& answer, const Screen& screen) {
  constexpr int kRows = 5;
  LineBudget out(kFirstScreen - 1, screen);
  out.add_prose(verdict_line(answer));
  if (answer.fits()) out.add_prose(time_line(answer), "  ", "  ");
  if (answer.fits()) out.add_prose(phases_line(answer), "  ", "  ");
  out.add("\n" + question_text(answer, screen) + "\n");
  const auto num_rows = std::size_t(std::clamp(out.room() - 1, 1, kRows));  // below a line of titles
  const std::vector<const StrategyEstimate*> rows = main_rows(answer, num_rows);
  out.add(strategies_table_text(answer, rows, screen));
  const Recommendation recommended = answer.result.recommended.value_or(Recommendation{});
  const auto& assumptions = answer.result.assumptions;
  const std::size_t num_notes = std::min(answer.num_notes, assumptions.size());
  if (!answer.caveat.empty()) out.add_prose(answer.caveat, "- ");
  if (answer.fits()) {
    for (const std::string& line : better_lines(answer)) out.add_prose(line);
    out.add_prose("Why: " + recommended.reason);
  }
  if (answer.shown->fit != Fit::Yes)
    for (const std::string& advice : recommended.advice) out.add_prose(advice, "- ");
  out.add_prose(memory_line(*answer.shown));
  for (std::size_t i = 0; i < num_notes; ++i)
    if (assumptions[i] != answer.caveat) out.add_prose(assumptions[i], "- ");
  if (answer.fits() && answer.shown->fit == Fit::Yes)
    for (const std::string& advice : recommended.advice) out.add_prose(advice, "- ");
  if (answer.fits()) out.add_prose(limits_line(*answer.shown));
  const std::string words = words_of_table(answer, rows);
  if (out.num_hidden() == 0 && width_of(words) < 2 * prose_width(screen) && out.room() >= 2) out.add_prose(words);
  const std::size_t assumed = assumptions.size() - num_notes;
  const int more = out.num_hidden();
  const std::string hidden = more > 0 ? fmt::format(", {} more remark{}", more, more == 1 ? "" : "s") : "";
  const bool has_phases = !answer.shown->phases.empty();
  return out.take() + fmt::format("--explain: all strategies, {}{} assumptions, sources{}\n",
                                  has_phases ? "phases, " : "", assumed, hidden);
}

}  // namespace gpuplan
