#include "report/text/answers_text.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/names.h"
#include "base/narrow.h"
#include "base/unit_text.h"
#include "cluster/gpu_file.h"
#include "models/framework.h"
#include "models/optimizers.h"
#include "models/training_method.h"
#include "report/text/amounts.h"
#include "report/text/line_budget.h"
#include "report/text/plan_tables.h"
#include "report/text/table.h"
#include "report/text/text.h"
#include "search/ranker.h"
#include "search/row_text.h"

namespace gpuplan {
namespace {

constexpr std::size_t kKnobsShown = 10;

/// "LoRA, micro batch 4 x 2, 64 sequences a step, checkpointing"; the rows under the answer leave out the whole batch.
std::string settings_words(const PlanRow& row, bool says_whole_batch) {
  const Recipe& r = row.request.recipe;
  std::string text = fmt::format("{}, micro batch {}", method_word(r), r.micro_batch);
  if (r.grad_accum > 1) text += fmt::format(" x {}", r.grad_accum);
  if (says_whole_batch && row.estimate().global_batch > r.micro_batch)
    text += fmt::format(", {} sequences a step", format_grouped(row.estimate().global_batch));
  const bool stays_as_loaded =
      r.precision == Precision::Bf16Loaded && row.estimate().strategy.engine == ShardingEngine::Local;
  if (r.method == Method::Full && (r.precision == Precision::Bf16True || stays_as_loaded)) text += ", weights in bf16";
  if (r.method == Method::Full && r.optimizer != r.framework->default_optimizer)
    text += fmt::format(", {}", optimizer_text(r));
  if (const std::string older = older_fsdp_words(row.request, row.estimate().strategy); !older.empty())
    text += "," + older;
  if (r.checkpointing != Checkpointing::None) text += ", checkpointing";
  if (r.loss == LossKernel::Fused) text += ", fused loss";
  if (r.torch_compile) text += ", compiled";
  if (r.offload.any()) text += fmt::format(", offload to {} of host memory", format_bytes(row.estimate().host.step));
  return text;
}

/// A command over several lines that can be pasted as it stands.
std::string command_lines(const std::string& command, int width, const std::string& first) {
  constexpr int kMark = 2;  // " \"
  const std::string rest(std::size_t(width_of(first)) + 2, ' ');
  std::string out, line = first;
  bool is_empty = true;
  std::vector<std::string> words = split(command, ' ');
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string word = words[i];  // a flag stays with its value
    while (i + 1 < words.size() && word.starts_with("--") && !words[i + 1].starts_with("--")) word += " " + words[++i];
    if (!is_empty && width_of(line) + 1 + width_of(word) + kMark > width) {
      out += line + " \\\n";
      line = rest;
      is_empty = true;
    }
    line += (is_empty ? "" : " ") + word;
    is_empty = false;
  }
  return out + line + "\n";
}

std::string row_text(const PlanRow& row, std::size_t number, const Screen& screen) {
  std::string out = wrap(fmt::format("{}: {}", settings_words(row, false), row.reason), prose_width(screen),
                         fmt::format("  {} ", number), "    ");
  if (row.estimate().fit != Fit::Yes)
    out += wrap((row.estimate().fit == Fit::Tight ? "tight: " : "") + row.estimate().why_not_yes, prose_width(screen),
                "    ", "    ");
  return out + command_lines(row.command, prose_width(screen), "    ");
}

std::string rows_text(const PlanAnswer& answer, const Screen& screen) {
  std::string out = plan_rows(answer, answer.found.rows, true, screen) + "\n";
  for (std::size_t i = 0; i < answer.found.rows.size(); ++i) out += row_text(answer.found.rows[i], i + 1, screen);
  return out;
}

/// The best of the kinds of GPU that no row above has.
std::string by_gpu_text(const PlanAnswer& answer, std::size_t most, const Screen& screen) {
  std::span<const PlanRow> rows = answer.found.by_gpu;
  if (rows.empty()) return "";
  return heading("The best of other GPUs", screen) +
         plan_rows(answer, rows.first(std::min(most, rows.size())), false, screen);
}

std::string knobs_text(const PlanAnswer& answer, const Screen& screen) {
  const PlanRow& plan = answer.found.rows.front();
  Table table{.columns = {{"  "}, {""}}, .rows = {}};
  std::vector<const Knob*> knobs;
  for (const Knob& knob : answer.found.knobs) knobs.push_back(&knob);
  // what could be had comes before what does not fit
  std::ranges::stable_sort(
      knobs, [](const Knob* a, const Knob* b) { return (a->fit >= Fit::IfHost) > (b->fit >= Fit::IfHost); });
  if (knobs.size() > kKnobsShown) knobs.resize(kKnobsShown);
  if (knobs.empty()) return "";
  int widest = 0;
  for (const Knob* knob : knobs) widest = std::max(widest, width_of(knob->change));
  std::string out = heading("What each change is worth", screen);
  for (const Knob* knob : knobs)
    out += wrap(knob_effect(*knob, plan), prose_width(screen), "  " + pad_right(knob->change, widest) + "  ",
                std::string(std::size_t(widest) + 4, ' '));
  return out;
}

/// Says whether a rejection is of a plan that is possible as such.
bool is_limit(const std::string& why) {
  return why == "does not fit" || why == kTooMuchOnHost || why.find("--under") != std::string::npos ||
         why.find("--budget") != std::string::npos;
}

std::string limits_text(const SearchQuestion& q) {
  std::string text;
  if (q.under) text += fmt::format(" under {}", format_duration(*q.under));
  if (q.budget) text += fmt::format("{} for {}", text.empty() ? "" : " and", format_usd(*q.budget));
  return text;
}

std::string would_do_text(const SearchAnswer& found, const Screen& screen) {
  if (found.would_do.empty()) return "";
  std::vector<std::string> lines;
  for (const WouldDo& one : found.would_do) lines.push_back(fmt::format("{}: {}", one.change, one.plan));
  return heading(found.has_plan() ? "Instead" : "What would do", screen) + points(lines, screen);
}

}  // namespace

std::string price_words(const PlanRow& row) {
  if (!row.offer.usd_per_gpu_hour) return "";
  std::string text = fmt::format("price: {} per GPU and hour", format_usd(*row.offer.usd_per_gpu_hour));
  const std::string name = row.offer.name.substr(0, row.offer.name.find(": "));
  if (!name.empty()) text += ", " + name;
  text += row.offer.is_dated() ? ", " + row.offer.date : row.is_rented ? ", undated" : "";
  if (!row.offer.source.empty() && row.offer.source != name) text += fmt::format(" ({})", row.offer.source);
  if (const std::string page = row.is_rented ? price_page(row.offer.vendor) : ""; !page.empty())
    text += fmt::format("; today's: {}", page);
  if (row.offer.is_spot)
    text += fmt::format("; interrupted {:g} times per hour, which costs {:.0f} % more time",
                        row.offer.spot.interruptions_per_hour, 100 * (row.slowdown - 1));
  return text;
}

std::string full_length_words(const EstimateRequest& request, bool has_rows) {
  if (generates(request.recipe)) {
    const bool prompts = request.rollout.mean_prompt == 0, answers = request.rollout.mean_completion == 0;
    if (!prompts && !answers) return "";
    return fmt::format(" with every {} at its longest ({} MEAN,MAX)",
                       !answers  ? "prompt"
                       : prompts ? "prompt and answer"
                                 : "answer",
                       !answers  ? "--prompt-len"
                       : prompts ? "--prompt-len and --completion-len"
                                 : "--completion-len");
  }
  const bool is_assumed = has_rows && request.dataset.tokens_per_row == 0;
  return is_assumed ? " at full length (--tokens-per-row)" : "";
}

std::string set_up_words(Seconds overhead) {
  if (overhead.value <= 0) return "";
  return fmt::format(" with {:.3g} min of set-up (--overhead)", overhead.value / 60);
}

std::string overhead_words(const SearchQuestion& question) {
  if (question.overhead.value <= 0) return "";
  return fmt::format("{:.3g} min of set-up, download and failed starts are in every time and cost; --overhead sets it",
                     question.overhead.value / 60);
}

/// " ($1.57 per GPU hour, 2026-03-10)".
static std::string rate_words(const PlanRow& row) {
  if (!row.offer.usd_per_gpu_hour) return "";
  return fmt::format(" ({} per GPU hour, {})", format_usd(*row.offer.usd_per_gpu_hour),
                     row.offer.is_dated() ? row.offer.date : "undated");
}

std::string plan_sentence(const PlanAnswer& answer) {
  const SearchQuestion& q = answer.question;
  if (!answer.found.has_plan())
    return fmt::format("Nothing {}{}.", q.is_rented ? "that can be rented does this" : "does this here",
                       limits_text(q));
  const PlanRow& row = answer.found.rows.front();
  std::string text = answer.largest.empty() ? "" : answer.largest + ". ";
  text += q.is_rented ? fmt::format("Rent {} at {}{} and train", row.gpus, row.offer.name, rate_words(row))
                      : fmt::format("Train on {}", row.gpus);
  const std::string meaning = meaning_of(row.estimate().strategy);
  const std::string assumed =
      (answer.has_rows ? "" : fmt::format(" of {} assumed rows (--rows)", format_grouped(row.request.dataset.rows))) +
      (answer.data_words.empty() ? "" : fmt::format(" ({})", answer.data_words)) +
      full_length_words(row.request, answer.has_rows);
  text += fmt::format(" with {} ({}{}): {} tokens{} in {}{}", strategy_title(row.request),
                      meaning.empty() ? "" : meaning + "; ", settings_words(row, true),
                      format_count(total_tokens(row.request)), assumed,
                      with_range(row.total, row.estimate().time_range), set_up_words(q.overhead));
  if (row.cost_usd) text += ", " + usd_with_range(*row.cost_usd, row.estimate().time_range);
  text += row.estimate().fit == Fit::Tight ? ". It fits tightly."
          : row.estimate().fit == Fit::IfHost
              ? fmt::format(". It fits if the host has {}.", format_bytes(row.estimate().host.needed()))
              : ".";
  return answer.found.is_complete ? text : "The best so far: " + text;
}

std::string knob_effect(const Knob& knob, const PlanRow& plan) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (knob.time_ratio >= 1.95)
    add(fmt::format("{:.1f} times the time", knob.time_ratio));
  else if (std::abs(knob.time_ratio - 1) >= 0.01)
    add(fmt::format("{:.0f} % {} time", 100 * std::abs(knob.time_ratio - 1), knob.time_ratio > 1 ? "more" : "less"));
  else
    add("as fast");
  if (std::abs(knob.memory / plan.estimate().tiers.usable) >= 0.01)
    add(fmt::format("{} {}", format_bytes(Bytes{std::abs(knob.memory.count)}),
                    knob.memory.count > 0 ? "more" : "less"));
  if (knob.cost_usd && plan.cost_usd && std::abs(*knob.cost_usd / *plan.cost_usd - 1) >= 0.01)
    add(format_usd(*knob.cost_usd));
  if (knob.fit < Fit::IfHost) text += ": does not fit";
  if (knob.fit == Fit::IfHost) text += ": fits if the host has the memory";
  if (knob.fit == Fit::Tight && plan.estimate().fit == Fit::Yes) text += ": fits tightly";
  return text;
}

std::int64_t num_possible(const SearchAnswer& found) {
  std::int64_t out = found.num_plans;
  for (const auto& [why, count] : found.rejected)
    if (!is_limit(why)) out -= count;
  return out;
}

std::string searched_text(const SearchAnswer& found) {
  std::vector<std::pair<std::int64_t, std::string>> reasons;
  std::int64_t impossible = 0;
  for (const auto& [why, count] : found.rejected) {
    if (!is_limit(why)) impossible += count;
    if (is_limit(why)) reasons.emplace_back(count, why);
  }
  std::ranges::sort(reasons, std::greater{});
  std::string text = fmt::format("{} plans searched in {}{}", format_grouped(num_possible(found)),
                                 format_duration({found.seconds}), found.is_complete ? "" : ", then stopped");
  for (const auto& [count, why] : reasons) text += fmt::format("; {}: {}", why, format_grouped(count));
  if (impossible > 0)
    text +=
        fmt::format("; {} more combinations are none that the trainer and these GPUs have", format_grouped(impossible));
  return text;
}

namespace {

/// "--qlora experts", with the trainers that have it where that of the request does not.
std::string experts_flags(const EstimateRequest& r) {
  if (r.recipe.framework->quantisation.offers_experts) return "--qlora experts";
  std::vector<std::string> others;
  for (const FrameworkConvention& record : list_frameworks()) {
    const FrameworkQuantisation& q = resolve_framework(record.name, {}, r.model.model_type).quantisation;
    if (q.offers_experts || q.stacked_experts) others.push_back(record.name);
  }
  return fmt::format("another trainer (--framework {})", fmt::join(others, ", "));
}

/// Says how sure the first row is to be the best: what is as good, and what a price without a date leaves out.
std::string beside_the_first(const PlanAnswer& answer, const Screen& screen) {
  const SearchAnswer& found = answer.found;
  const auto line = [&](const std::string& text) { return wrap(text, prose_width(screen), "  ", "  "); };
  const Wishes wishes = wishes_of(answer.question, found.error);
  const PlanRow& first = found.rows.front();
  std::string out;
  if (answer.question.is_fast_by_budget)
    out += line("--budget alone asks for the fastest within it; --prefer cost asks for the cheapest.");
  if (!wishes.is_exact && found.num_equal > 0)
    out +=
        line(fmt::format("{} other plan{} as good within the error of {:.0f} %; this is the simplest.",
                         format_grouped(found.num_equal), found.num_equal == 1 ? " is" : "s are", 100 * found.error));
  if (wishes.first == Preference::Cost) {
    std::size_t quick = 0;
    for (std::size_t i = 1; i < found.rows.size(); ++i) {
      const Merit other = found.rows[i].merit();
      if (rank_of(other) >= rank_of(first.merit()) && other.cost <= first.merit().cost * (1 + found.error) &&
          other.time * (1 + found.error) < found.rows[quick].merit().time)
        quick = i;
    }
    if (quick > 0)
      out += line(fmt::format("Within the error of {:.0f} % row {} costs as much: {}.", 100 * found.error, quick + 1,
                              found.rows[quick].reason));
  }
  const Recipe& recipe = first.request.recipe;
  const bool lacks_memory = first.estimate().fit != Fit::Yes || recipe.offload.any();
  if (lacks_memory && recipe.quant.kind != BaseQuant::None && first.request.model.moe.is_present())
    if (const double share = unquantised_experts(prepare(first.request.model, recipe, *recipe.framework), recipe);
        share >= 0.01)
      out += line(fmt::format("The experts stay in 16 bit, {:.0f} % of the weights: {} holds them in 4.", 100 * share,
                              experts_flags(first.request)));
  if (first.is_rented && first.offer.usd_per_gpu_hour && first.offer.date == "undated")
    out += line("Its price has no date: ask the vendor.");
  if (!found.with_offload.empty()) {
    std::string cheaper;
    for (const PlanRow& row : found.with_offload)
      cheaper += fmt::format("{}{} at {}, {}, {}", cheaper.empty() ? "" : "; ", row.gpus, row.offer.vendor,
                             format_short_duration(row.total), format_usd(row.cost_usd.value_or(0)));
    out += line(fmt::format("Cheaper with offload: {} (★ only at half the cost, as it rests on the host).", cheaper));
  }
  if (found.undated)
    out += line(fmt::format("In no row, as its price has no date: {} at {}, {}, {}{}.", found.undated->gpus,
                            found.undated->offer.vendor, format_short_duration(found.undated->total),
                            format_usd(found.undated->cost_usd.value_or(0)),
                            found.undated->offer.vendor == first.offer.vendor
                                ? ""
                                : fmt::format(" (--vendor {})", found.undated->offer.vendor)));
  return out;
}

std::vector<std::string> assumptions_of(const PlanAnswer& answer) {
  std::vector<std::string> out = answer.notes;
  if (answer.found.has_plan())
    for (std::string words : {price_words(answer.found.rows.front()), overhead_words(answer.question)})
      if (!words.empty()) out.push_back(std::move(words));
  const SearchQuestion& q = answer.question;
  if (!q.global_batch && !q.pinned.contains("micro-batch") && !q.pinned.contains("grad-accum") &&
      !generates(q.base.recipe))
    out.push_back(
        fmt::format("batch and --compile are chosen, about {} sequences a step (--global-batch); estimate takes one "
                    "micro-batch a step "
                    "and does not compile where neither is given",
                    kUsualGlobalBatch));
  out.push_back(searched_text(answer.found));
  return out;
}

/// The tables alone, of Markdown under a line that says what they are about.
std::string tables_of(const PlanAnswer& answer, const Screen& screen) {
  if (screen.format == TableFormat::Csv) return plan_csv(answer, screen);
  const SearchAnswer& found = answer.found;
  const auto line = [](const std::string& text) { return kTableBegins + text + "\n" + kTableEnds; };
  const auto about = [&](std::span<const PlanRow> rows) {
    const std::string days = price_days(rows);
    return days.empty() ? "" : "; " + days;
  };
  std::string out =
      line(markdown_line(question_words(answer) + about(found.rows))) + plan_rows(answer, found.rows, true, screen);
  if (found.by_gpu.empty()) return out;
  return out + line(markdown_line("The best of other GPUs" + about(found.by_gpu))) +
         plan_rows(answer, found.by_gpu, false, screen);
}

/// The answer of `plan` on one screen: at most kFirstScreen lines.
std::string first_plan_text(const PlanAnswer& answer, const Screen& screen) {
  const SearchAnswer& found = answer.found;
  const std::size_t more = found.rows.size() - 1;
  const std::string commands = more == 0 ? "" : fmt::format("{} more command{}, ", more, more == 1 ? "" : "s");
  const bool has_rates = answer.question.is_rented && found.rows.front().offer.usd_per_gpu_hour;
  const auto lines = [](const std::string& text) { return narrow<int>(std::ranges::count(text, '\n')); };
  const auto rest = [&](std::size_t hidden) {
    const std::string rows = hidden == 0 ? "" : fmt::format("{} more row{}, ", hidden, hidden == 1 ? "" : "s");
    return wrap(fmt::format("--explain: {}{}other GPUs, worth of changes, {} assumptions{}", rows, commands,
                            assumptions_of(answer).size(), has_rates ? "; --format md: prices, ranges" : ""),
                prose_width(screen), "", "  ");
  };
  LineBudget out(kFirstScreen - std::max(lines(rest(0)), lines(rest(more))), screen);
  out.add_prose(plan_sentence(answer), "", "");
  const std::string beside = beside_the_first(answer, screen);
  const auto rows = [&](std::size_t count) {
    return "\n" + plan_rows(answer, std::span(found.rows).first(count), true, screen) + "\n" +
           row_text(found.rows.front(), 1, screen);
  };
  // the command of row 1 goes before further rows, and two rows before what is said beside them
  const auto most_rows = [&](int room, std::size_t fewest) {
    std::size_t count = found.rows.size();
    while (count > fewest && lines(rows(count)) > room) --count;
    return count;
  };
  const std::size_t two = std::min<std::size_t>(2, found.rows.size());
  if (lines(rows(most_rows(out.room() - lines(beside), two))) + lines(beside) <= out.room()) out.add(beside);
  const std::size_t shown = most_rows(out.room(), 1);
  if (!out.add(rows(shown))) {
    out.add("\n" + plan_rows(answer, std::span(found.rows).first(shown), true, screen));
    out.add_prose(fmt::format("Row 1: {}", found.rows.front().reason), "\n  ", "  ");
  }
  out.add(would_do_text(found, screen));
  out.add(by_gpu_text(answer, 3, screen));
  return out.take() + rest(found.rows.size() - shown);
}

/// Why there is no plan, and what would do.
std::string no_plan_text(const PlanAnswer& answer, const Screen& screen) {
  const SearchAnswer& found = answer.found;
  std::string out = wrap(plan_sentence(answer), prose_width(screen), "", "");
  if (!found.why_none.empty()) out += wrap(found.why_none, prose_width(screen), "  ", "  ");
  return out +
         (!found.would_do.empty()
              ? would_do_text(found, screen)
              : wrap(
                    "No change that gpuplan knows makes it possible: choose a smaller model, or GPUs with more memory.",
                    prose_width(screen), "  ", "  "));
}

/// The same on one screen, with the first assumptions.
std::string first_no_plan_text(const PlanAnswer& answer, const Screen& screen) {
  constexpr int kRest = 1;
  LineBudget out(kFirstScreen - kRest, screen);
  const std::string whole = no_plan_text(answer, screen);
  if (!out.add(whole)) return whole + "--explain: assumptions\n";
  const std::vector<std::string> assumptions = assumptions_of(answer);
  std::vector<std::string> shown(assumptions.begin(), assumptions.end());
  const auto text = [&] { return heading("Assumptions", screen) + points(shown, screen); };
  while (!shown.empty() && std::ranges::count(text(), '\n') > out.room()) shown.pop_back();
  if (!shown.empty()) out.add(text());
  const std::size_t more = assumptions.size() - shown.size();
  return out.take() + (more > 0 ? fmt::format("--explain: {} more assumption{}\n", more, more == 1 ? "" : "s") : "");
}

}  // namespace

std::string plan_text(const PlanAnswer& answer, const Screen& screen) {
  const SearchAnswer& found = answer.found;
  if (screen.format != TableFormat::Text && found.has_plan()) return tables_of(answer, screen);
  if (answer.is_brief) return found.has_plan() ? first_plan_text(answer, screen) : first_no_plan_text(answer, screen);
  if (!found.has_plan())
    return no_plan_text(answer, screen) + heading("Assumptions", screen) + points(assumptions_of(answer), screen);
  std::string out = wrap(plan_sentence(answer), prose_width(screen), "", "");
  if (!found.why_none.empty()) out += wrap(found.why_none, prose_width(screen), "  ", "  ");
  out += beside_the_first(answer, screen) + "\n" + rows_text(answer, screen) + would_do_text(found, screen) +
         by_gpu_text(answer, found.by_gpu.size(), screen) + knobs_text(answer, screen);
  return out + heading("Assumptions", screen) + points(assumptions_of(answer), screen);
}

std::string carried_word(const Carried& carried) {
  const char* method = carried.method == Method::Full ? "full" : carried.method == Method::Lora ? "LoRA" : "QLoRA";
  const bool is_slow = carried.per_million_tokens > kSlow;
  return fmt::format("{}{}{}{}", method, carried.offloads ? "*" : "", carried.fit == Fit::Tight ? "?" : "",
                     is_slow ? " " + format_short_duration(carried.per_million_tokens) : "");
}

namespace {

Table largest_table(const LargestTable& table, std::size_t most_rows) {
  Table text{.columns = {{"  model"}, {"size", Align::Right}}, .rows = {}};
  for (const std::int64_t context : table.contexts) text.columns.push_back({format_grouped(context) + " tokens"});
  for (const LargestRow& row : table.rows) {
    if (text.rows.size() == most_rows) break;
    std::vector<Cell> cells{{"  " + row.model}, {format_count(row.parameters)}};
    for (const std::optional<Carried>& carried : row.by_context)
      cells.push_back(carried ? Cell{carried_word(*carried), ink_of(carried->fit)} : Cell{"-", Ink::Faint});
    text.add(std::move(cells));
  }
  return text;
}

}  // namespace

std::string largest_text(const LargestTable& table, const SearchQuestion& question, bool is_brief,
                         const Screen& screen) {
  const ClusterSpec& cluster = question.machines.front().cluster;
  const std::string gpus = machine_name(cluster);
  if (table.rows.empty())
    return wrap(fmt::format("None of the {} models of the catalogue can be trained on {} with what was given.",
                            table.num_models, gpus),
                prose_width(screen), "", "");
  const LargestRow& largest = table.rows.front();
  const std::string head =
      wrap(fmt::format("The largest model of the catalogue that can be trained on {}: {} ({} parameters).", gpus,
                       largest.model, format_count(largest.parameters)),
           prose_width(screen), "", "") +
      "\n";
  std::vector<std::string> notes{
      "the best method that fits, one sequence per GPU and pass, every memory saver allowed; *: with offload to the "
      "host; ?: tightly; a time: of a million tokens, where that is over an hour; -: does not fit, or the model has no "
      "such context",
      cluster.host_memory.count > 0 ? fmt::format("a host of {}, as given", format_bytes(cluster.host_memory))
                                    : fmt::format("a host of {}, which such machines usually have; --host-memory says "
                                                  "another",
                                                  format_bytes(cluster.host.usual_memory))};
  const auto tail = [&] { return heading("How to read it", screen) + points(notes, screen); };
  if (is_brief && screen.format == TableFormat::Text) {
    constexpr int kTitles = 1, kRest = 1, kFewest = 3;  // lines
    const std::string others = head + tail();
    const int room = kFirstScreen - kTitles - kRest - narrow<int>(std::ranges::count(others, '\n'));
    const auto most = std::size_t(std::max(kFewest, room));
    if (table.rows.size() > most)
      notes.insert(notes.begin(), fmt::format("{} smaller models fit too: --explain", table.rows.size() - most));
    return head + render(largest_table(table, most), screen) + tail();
  }
  return head + render(largest_table(table, table.rows.size()), screen) + tail();
}

}  // namespace gpuplan
