#include "report/text/plan_tables.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "models/recipe_names.h"
#include "report/text/amounts.h"
#include "report/text/answers_text.h"
#include "report/text/table.h"
#include "report/text/text.h"
#include "search/row_text.h"

namespace gpuplan {
namespace {

std::string vendor_of(const PlanRow& row) { return row.offer.is_spot ? row.offer.vendor + " spot" : row.offer.vendor; }

enum class Ranges : unsigned char { OfCost, All };

Table rows_table(const PlanAnswer& answer, std::span<const PlanRow> rows, bool has_best, Ranges ranges) {
  const bool is_rented = answer.question.is_rented, is_narrow = ranges == Ranges::OfCost;
  const bool is_one_method = std::ranges::all_of(rows, [&](const PlanRow& row) {
    return method_word(row.request.recipe) == method_word(rows.front().request.recipe);
  });
  Table table{.columns = {{"  "},
                          {"GPUs"},
                          {is_rented ? "vendor" : "", Align::Left, is_narrow ? 1 : 0},
                          {"method", Align::Left, is_narrow || is_one_method ? 2 : 0},
                          {"strategy"},
                          {"time", Align::Right},
                          {"cost", Align::Right},
                          {"memory", Align::Right, 3},
                          {"fits", Align::Left},
                          {"$/GPU h", Align::Right, 4},
                          {"price of", Align::Left, 5}},
              .rows = {}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const PlanRow& row = rows[i];
    const bool is_best = has_best && i == 0;
    const Ink ink = is_best ? Ink::Strong : Ink::Plain;
    const StrategyEstimate& e = row.estimate();
    const auto time_range = is_narrow ? std::nullopt : e.time_range;
    const bool is_priced = is_rented && row.offer.usd_per_gpu_hour;
    table.add({{has_best ? fmt::format("{} {}", is_best ? "★" : " ", i + 1) : "   ", ink},
               {row.gpus, ink},
               {is_rented ? vendor_of(row) : "", ink},
               {method_word(row.request.recipe), ink},
               {strategy_title(row.request) + (row.request.recipe.offload.any() ? " +offload" : ""), ink},
               {with_range(row.total, time_range), ink},
               {row.cost_usd ? usd_with_range(*row.cost_usd, e.time_range) : "", ink},
               {fmt::format("{:.0f} %", 100 * (shown_memory(e) / e.tiers.usable)), ink},
               {verdict_text(e), ink_of(e.fit)},
               {is_priced ? fmt::format("{:.3g}", *row.offer.usd_per_gpu_hour) : "", ink},
               {!is_priced             ? ""
                : row.offer.is_dated() ? row.offer.date
                                       : "undated",
                ink}});
  }
  return without_empty_columns(std::move(table));
}

/// A number for a spreadsheet.
std::string number(double value, int decimals) { return fmt::format("{:.{}f}", value, decimals); }

}  // namespace

std::string plan_rows(const PlanAnswer& answer, std::span<const PlanRow> rows, bool has_best, const Screen& screen) {
  Table table = rows_table(answer, rows, has_best, Ranges::All);
  if (screen.format != TableFormat::Text) return render(table, screen);
  table = fit_to(std::move(table), screen.width);
  if (width_of(table) > screen.width) table = fit_to(rows_table(answer, rows, has_best, Ranges::OfCost), screen.width);
  return render(table, screen);
}

std::string question_words(const PlanAnswer& answer) {
  const SearchQuestion& q = answer.question;
  std::string methods;
  if (answer.found.has_plan()) {
    methods = method_word(answer.found.rows.front().request.recipe);
  } else {
    for (const Method method : q.methods) methods += (methods.empty() ? "" : " or ") + std::string(to_string(method));
  }
  const Dataset& data = q.base.dataset;
  EstimateRequest trained = answer.found.has_plan() ? answer.found.rows.front().request : q.base;
  return fmt::format("{}, {}: {} {} of {} tokens, {:g} epoch{}, {} tokens", q.base.model.name, methods,
                     format_grouped(data.rows), answer.has_rows ? "rows" : "assumed rows (--rows)",
                     format_grouped(data.tokens_per_row > 0 ? data.tokens_per_row : trained.recipe.seq_len),
                     data.epochs, data.epochs == 1 ? "" : "s", format_count(total_tokens(trained)));
}

std::string price_days(std::span<const PlanRow> rows) {
  std::string first, last;
  for (const PlanRow& row : rows) {
    if (!row.is_rented || !row.offer.is_dated()) continue;
    if (first.empty() || row.offer.date < first) first = row.offer.date;
    last = std::max(last, row.offer.date);
  }
  if (first.empty()) return "";
  if (first == last) return "prices of " + first;
  if (last.starts_with(first)) return fmt::format("prices of {}, the newest of {}", first, last);  // a year alone
  return fmt::format("prices of {} to {}", first, last);
}

std::string plan_csv(const PlanAnswer& answer, const Screen& screen) {
  constexpr int kHours = 3, kDollars = 2, kShare = 3;  // decimals
  Table table{.columns = {{"row"},
                          {"gpus"},
                          {"num_gpus"},
                          {"vendor"},
                          {"method"},
                          {"strategy"},
                          {"hours"},
                          {"hours_low"},
                          {"hours_high"},
                          {"usd"},
                          {"usd_low"},
                          {"usd_high"},
                          {"usd_per_gpu_hour"},
                          {"price_date"},
                          {"price_source"},
                          {"memory_share"},
                          {"fits"},
                          {"probability"},
                          {"model"},
                          {"rows"},
                          {"tokens_per_row"},
                          {"epochs"},
                          {"reason"}},
              .rows = {}};
  const Dataset& data = answer.question.base.dataset;
  const auto add = [&](const PlanRow& row, const std::string& name) {
    const StrategyEstimate& e = row.estimate();
    const AccuracyRange range = e.time_range.value_or(AccuracyRange{});
    const double hours = row.total.value / 3600;
    const auto dollars = [&](double factor) { return row.cost_usd ? number(factor * *row.cost_usd, kDollars) : ""; };
    const auto per_row = data.tokens_per_row > 0 ? data.tokens_per_row : row.request.recipe.seq_len;
    table.add({{name},
               {row.gpus},
               {fmt::format("{}", e.num_gpus_used)},
               {vendor_of(row)},
               {method_word(row.request.recipe)},
               {strategy_title(row.request) + (row.request.recipe.offload.any() ? " +offload" : "")},
               {number(hours, kHours)},
               {number(range.low * hours, kHours)},
               {number(range.high * hours, kHours)},
               {dollars(1)},
               {dollars(range.low)},
               {dollars(range.high)},
               {row.offer.usd_per_gpu_hour ? fmt::format("{:g}", *row.offer.usd_per_gpu_hour) : ""},
               {row.offer.is_dated()                          ? row.offer.date
                : row.is_rented && row.offer.usd_per_gpu_hour ? "undated"
                                                              : ""},
               {row.offer.source},
               {number(e.tiers.process / e.tiers.usable, kShare)},
               {std::string(to_string(e.fit))},
               {number(e.chance, kShare)},
               {answer.question.base.model.name},
               {fmt::format("{}", data.rows)},
               {fmt::format("{}", per_row)},
               {fmt::format("{:g}", data.epochs)},
               {row.reason}});
  };
  for (std::size_t i = 0; i < answer.found.rows.size(); ++i) add(answer.found.rows[i], fmt::format("{}", i + 1));
  for (const PlanRow& row : answer.found.by_gpu) add(row, "best of another GPU");
  return render(table, screen);
}

}  // namespace gpuplan
