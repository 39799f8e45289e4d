#include "report/html/reports.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/names.h"
#include "base/unit_text.h"
#include "report/html/html.h"
#include "report/html/page_parts.h"
#include "report/text/amounts.h"
#include "report/text/answers_text.h"
#include "search/row_text.h"

namespace gpuplan {
namespace {

// The chart is drawn for the width of a phone and grows with the page, so that its text stays readable.
constexpr double kFrontierWidth = 360, kFrontierHeight = 250, kFrontierLeft = 46, kFrontierRight = 14,
                 kFrontierTop = 12, kFrontierBottom = 34;

bool has_costs(const PlanAnswer& answer) {
  const std::vector<PlanRow>& rows = answer.found.rows;
  return std::all_of(rows.begin(), rows.end(), [](const PlanRow& row) { return row.cost_usd.has_value(); });
}

/// A logarithmic axis from a little below the least value to a little above the most.
struct Axis {
  double low, high, begin, end;
  double at(double value) const {
    return begin + (end - begin) * (std::log(value) - std::log(low)) / (std::log(high) - std::log(low));
  }
};

Axis axis_over(const std::vector<double>& values, double begin, double end) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  constexpr double kAir = 1.25;
  return {*least / kAir, *most * kAir, begin, end};
}

/// 1, 2, 5 times powers of ten between the ends, in units of `unit`; finer where these are few.
std::vector<double> marks_of(const Axis& axis, double unit) {
  std::vector<double> out;
  for (const std::vector<double>& steps : {std::vector<double>{1, 2, 5},
                                           {1, 1.5, 2, 3, 4, 5, 6, 8},
                                           {1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 9}}) {
    out.clear();
    for (double power = std::pow(10, std::floor(std::log10(axis.low / unit))); power * unit <= axis.high; power *= 10)
      for (const double step : steps)
        if (const double value = step * power * unit; value >= axis.low && value <= axis.high) out.push_back(value);
    if (out.size() >= 3) break;
  }
  return out;
}

double unit_of_time(double seconds) { return seconds >= 2 * 86400 ? 86400 : seconds >= 7200 ? 3600 : 60; }

std::string time_mark(double seconds, double unit) {
  return fmt::format("{:g} {}", seconds / unit, unit == 86400 ? "d" : unit == 3600 ? "h" : "min");
}

std::string grid_svg(const Axis& x, const Axis& y, bool has_cost) {
  std::string out;
  const double unit = unit_of_time(x.high);
  double free_from = 0;
  for (const double mark : marks_of(x, unit)) {
    const double at = x.at(mark);
    out +=
        fmt::format("<path class=\"grid\" d=\"M{:.1f} {}V{}\"/>", at, kFrontierTop, kFrontierHeight - kFrontierBottom);
    if (at - 14 < free_from) continue;
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", at,
                       kFrontierHeight - kFrontierBottom + 13, time_mark(mark, unit));
    free_from = at + 18;
  }
  for (const double mark : marks_of(y, 1)) {
    const double at = y.at(mark);
    out +=
        fmt::format("<path class=\"grid\" d=\"M{} {:.1f}H{}\"/>", kFrontierLeft, at, kFrontierWidth - kFrontierRight);
    out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kFrontierLeft - 5, at + 3,
                       has_cost ? escape_html(fmt::format("${:g}", mark)) : fmt::format("{:g} GiB", mark));
  }
  out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">time of the training</text>",
                     kFrontierWidth - kFrontierRight, kFrontierHeight - 6);
  return out + fmt::format("<text x=\"4\" y=\"9\">{}</text>\n", has_cost ? "cost" : "memory");
}

std::string figures_words(const PlanRow& row) {
  std::string text = format_duration(row.total);
  if (row.cost_usd) text += ", " + format_usd(*row.cost_usd);
  return text +
         fmt::format(", {} of {} per GPU", format_bytes(row.process()), format_bytes(row.estimate().tiers.usable));
}

std::string title_of(const PlanRow& row) {
  return fmt::format("{}{}, {} with {}", row.gpus, row.offer.vendor.empty() ? "" : " at " + row.offer.name,
                     method_word(row.request.recipe), row.request.strategy);
}

double height_of(const PlanRow& row, bool has_cost) {
  return has_cost ? *row.cost_usd : double(row.process().count) / 0x1p30;
}

/// Each plan is a link to its card, so that it can be reached by pointing, touching and with the keyboard.
std::string chart_html(const PlanAnswer& answer) {
  const std::vector<PlanRow>& rows = answer.found.rows;
  if (rows.empty()) return "";
  const bool has_cost = has_costs(answer);
  std::vector<double> xs, ys;
  for (const PlanRow& row : rows) xs.push_back(row.total.value), ys.push_back(std::max(1e-4, height_of(row, has_cost)));
  const Axis x = axis_over(xs, kFrontierLeft, kFrontierWidth - kFrontierRight),
             y = axis_over(ys, kFrontierHeight - kFrontierBottom, kFrontierTop);
  std::string out = fmt::format(
      "<div class=\"frontier\"><svg viewBox=\"0 0 {} {}\" role=\"group\" aria-label=\"Plans by time and {}; the list "
      "below "
      "has the figures\">\n",
      kFrontierWidth, kFrontierHeight, has_cost ? "cost" : "memory");
  out += grid_svg(x, y, has_cost);
  for (std::size_t i = rows.size(); i-- > 0;) {  // the best is drawn last, on top
    const PlanRow& row = rows[i];
    const std::string tip = escape_html(fmt::format("{}\n{}\n{}", title_of(row), figures_words(row), row.reason));
    out += fmt::format(
        "<a href=\"#plan-{0}\" class=\"point{1}{2}\" data-tip=\"{3}\" aria-label=\"{3}\"><circle cx=\"{4:.1f}\" "
        "cy=\"{5:.1f}\" r=\"9\"/><text x=\"{4:.1f}\" y=\"{6:.1f}\">{0}</text></a>\n",
        i + 1, i == 0 ? " best" : "", row.estimate().fit == Fit::Tight ? " tight" : "", tip, x.at(xs[i]), y.at(ys[i]),
        y.at(ys[i]) + 3.5);
  }
  return out +
         "</svg></div>\n<p class=\"soft\">Left is faster, down is cheaper; dashed: fits tightly. Point at a plan, or "
         "walk through them with Tab and the arrows.</p>\n";
}

/// A flag and its value stay on one line.
std::string command_html(const std::string& command) {
  std::string out, flag;
  const auto close = [&] {
    if (!flag.empty()) out += (out.empty() ? "" : " ") + ("<span>" + escape_html(flag) + "</span>");
    flag.clear();
  };
  for (const std::string& word : split(command, ' ')) {
    if (word.starts_with("--")) close();
    flag += (flag.empty() ? "" : " ") + word;
  }
  close();
  return out;
}

std::string card_html(const PlanRow& row, std::size_t number) {
  const StrategyEstimate& e = row.estimate();
  const double share = e.tiers.process / e.tiers.usable;
  std::string out = fmt::format("<li id=\"plan-{0}\"{1}><h3>{0}. {2}</h3>\n", number,
                                number == 1 ? " class=\"best\"" : "", escape_html(title_of(row)));
  out += paragraph_html(row.reason, "soft");
  out += "<div class=\"figures\"><span><b>" + escape_html(with_range(row.total, e.time_range)) + "</b> time</span>";
  if (row.cost_usd) out += "<span><b>" + escape_html(usd_with_range(*row.cost_usd, e.time_range)) + "</b> cost</span>";
  out += "<span><b>" + escape_html(percent(share)) + "</b> of the memory" +
         (e.fit == Fit::Tight ? ", <b class=\"tight\">tight</b>" : "") + "</span></div>\n";
  if (e.fit != Fit::Yes) out += paragraph_html(e.why_not_yes, "soft");
  if (const std::string price = price_words(row); !price.empty()) out += paragraph_html(price, "soft");
  return out + "<div class=\"command\"><pre><code>" + command_html(row.command) +
         "</code></pre><button type=\"button\">copy</button></div></li>\n";
}

std::string cards_html(const PlanAnswer& answer) {
  std::string out;
  for (std::size_t i = 0; i < answer.found.rows.size(); ++i) out += card_html(answer.found.rows[i], i + 1);
  return out.empty() ? "" : "<ol class=\"plans\">\n" + out + "</ol>\n";
}

std::string knobs_html(const PlanAnswer& answer) {
  std::string rows;
  for (const Knob& knob : answer.found.knobs)
    rows += "<tr>" + cell_html(escape_html(knob.change), "text") +
            cell_html(escape_html(knob_effect(knob, answer.found.rows.front())), "text") + "</tr>\n";
  return rows.empty() ? "" : table_head_html({{"change", ""}, {"what it does", ""}}) + rows + std::string(kTableEnd);
}

std::vector<std::string> would_do_words(const SearchAnswer& found) {
  std::vector<std::string> out;
  for (const WouldDo& one : found.would_do) out.push_back(fmt::format("{}: {}", one.change, one.plan));
  return out;
}

std::vector<std::string> notes_of(const PlanAnswer& answer) {
  std::vector<std::string> out = answer.notes;
  if (const std::string overhead = overhead_words(answer.question); !overhead.empty()) out.push_back(overhead);
  out.push_back(searched_text(answer.found));
  return out;
}

/// The best of the kinds of GPU that no plan above has.
std::string by_gpu_html(const PlanAnswer& answer) {
  std::string rows;
  for (const PlanRow& row : answer.found.by_gpu) {
    const std::optional<AccuracyRange>& range = row.estimate().time_range;
    rows += "<tr>" + cell_html(escape_html(title_of(row)), "text") +
            cell_html(escape_html(short_with_range(row.total, range))) +
            cell_html(escape_html(row.cost_usd ? usd_with_range(*row.cost_usd, range) : "")) +
            cell_html(escape_html(price_words(row)), "text") + "</tr>\n";
  }
  return rows.empty() ? ""
                      : table_head_html({{"plan", ""}, {"time", ""}, {"cost", ""}, {"price", ""}}) + rows +
                            std::string(kTableEnd);
}

}  // namespace

std::string plan_report(const PlanAnswer& answer) {
  const SearchAnswer& found = answer.found;
  const std::string title = fmt::format("A plan for {}", answer.question.base.model.name);
  return page_head_html(title, plan_style()) + "<body>\n<header>\n<h1>" + escape_html(title) + "</h1>\n" +
         paragraph_html(plan_sentence(answer), "answer") + "</header>\n" +
         section_html(found.has_plan() ? "Instead" : "What would do", list_html(would_do_words(found))) +
         section_html("Time and cost", chart_html(answer)) + section_html("The plans", cards_html(answer)) +
         section_html("The best of other GPUs", by_gpu_html(answer)) +
         section_html("What each change of plan 1 is worth", found.has_plan() ? knobs_html(answer) : "") +
         section_html("Assumptions", list_html(notes_of(answer))) +
         section_html("The question", "<pre><code>" + escape_html(answer.command) + "</code></pre>\n") +
         fmt::format(
             "<footer>gpuplan {}; times are simulated, not measured</footer>\n<div id=\"tip\" "
             "role=\"status\"></div>\n",
             GPUPLAN_VERSION) +
         "<script>" + std::string(plan_script()) + "</script>\n</body>\n</html>\n";
}

}  // namespace gpuplan
