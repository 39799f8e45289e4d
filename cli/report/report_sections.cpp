#include "cli/report/report_sections.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "cli/render/amounts.h"
#include "cli/render/simulation_facts.h"
#include "cli/render/simulation_tables.h"
#include "cli/report/html.h"

namespace gpuplan {
namespace {

std::string tile(std::string_view figure, std::string_view what) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", escape_html(figure), escape_html(what));
}

std::string per_second(double tokens) { return format_grouped(std::llround(tokens)); }

std::string percent(double share) { return share > 0 && share < 0.005 ? "< 1 %" : fmt::format("{:.0f} %", 100 * share); }

/// A cell of a row; numbers stand to the right.
std::string cell(const std::string& html, std::string_view css = "number") {
  return fmt::format("<td{}>{}</td>", css.empty() ? "" : fmt::format(" class=\"{}\"", css), html);
}

std::string head(const std::vector<std::pair<std::string_view, std::string_view>>& titles) {
  std::string out = "<div class=\"scroll\"><table>\n<thead><tr>";
  for (const auto& [title, css] : titles)
    out += fmt::format("<th{}>{}</th>", css.empty() ? "" : fmt::format(" class=\"{}\"", css), escape_html(title));
  return out + "</tr></thead>\n<tbody>\n";
}

constexpr std::string_view kTableEnd = "</tbody>\n</table></div>\n";

std::string fits_cell(const SimulatedPlan& plan) {
  return plan.estimate.fits ? cell("yes", "good") : cell("no", "bad");
}

std::string cost_cell(const SimulatedPlan& plan) { return cell(plan.cost_usd ? escape_html(format_usd(*plan.cost_usd)) : ""); }

std::string comparison_row(const SimulatedPlan& plan, double fastest, bool is_chosen) {
  if (!plan.estimate.not_applicable.empty())
    return fmt::format("<tr><td>{}</td><td colspan=\"7\" class=\"text\">not applicable: {}</td></tr>\n",
                       escape_html(plan_name(plan)), escape_html(plan.estimate.not_applicable));
  const Simulation& s = plan.simulation;
  const double exposed = s.step.ps > 0 ? s.exposed_communication / s.step_time() : 0;
  return fmt::format("<tr{}>{}", is_chosen ? " class=\"chosen\"" : "", cell(escape_html(plan_name(plan)), "")) + fits_cell(plan) +
         cell(format_bytes(plan.estimate.tiers.process)) + cell(format_short_duration(s.step_time())) +
         cell(bar_html(fastest > 0 ? plan.tokens_per_second / fastest : 0, per_second(plan.tokens_per_second),
                       plan.estimate.fits ? "" : "no"),
              "wide") +
         cell(percent(exposed)) + cell(percent(s.compute)) + cost_cell(plan) + "</tr>\n";
}

/// What was left out of the timeline, and how to see it.
std::string thinning_text(const SimulationAnswer& answer, const TimelineData& data) {
  const std::size_t num_ranks = answer.plan.simulation.ranks.size();
  std::string out;
  if (data.num_columns > 0)
    out += fmt::format("{} spans are drawn as {}: neighbours of the same activity within 1/{} of the step are merged. ",
                       format_grouped(std::int64_t(data.num_spans)), format_grouped(std::int64_t(data.num_drawn)),
                       format_grouped(data.num_columns));
  if (data.num_ranks < num_ranks)
    out += fmt::format("{} of {} simulated GPUs are not on this page. ", num_ranks - data.num_ranks, num_ranks);
  return out.empty() ? "" : out + "The trace (--trace) has everything.";
}

constexpr std::string_view kControls =
    "<div class=\"controls screen\"><button id=\"zoom-in\" type=\"button\">Zoom in</button>"
    "<button id=\"zoom-out\" type=\"button\">Zoom out</button><button id=\"zoom-all\" type=\"button\">Whole step</button>"
    "<label><input id=\"show-critical\" type=\"checkbox\"> critical path</label>{}</div>\n";

}  // namespace

std::string tiles_html(const SimulationAnswer& answer) {
  const SimulatedPlan& plan = answer.plan;
  const MemoryTiers& tiers = plan.estimate.tiers;
  std::string out = tile(format_short_duration(plan.simulation.step_time()), "one step") +
                    tile(per_second(plan.tokens_per_second), "tokens/s") +
                    tile(per_second(plan.tokens_per_second_per_gpu), "tokens/s per GPU") +
                    tile(fmt::format("{:.1f} %", 100 * plan.mfu), "MFU") +
                    tile(percent(plan.simulation.compute), "of the step computes") +
                    tile(format_bytes(tiers.process), "memory, of " + format_bytes(tiers.usable));
  if (plan.steps_per_epoch > 0) out += tile(format_short_duration(plan.total), "training");
  if (plan.cost_usd) out += tile(format_usd(*plan.cost_usd), "cost of training");
  return "<div class=\"tiles\">\n" + out + "</div>\n";
}

std::string critical_html(const Simulation& simulation) {
  std::string rows;
  for (const CriticalItem& item : simulation.critical)
    rows += "<tr>" + cell(escape_html(item.what), "text") + cell(bar_html(item.share, percent(item.share)), "wide") +
            cell(format_duration(item.time)) + cell(escape_html(item.remedy), "text") + "</tr>\n";
  if (rows.empty()) return "";
  return head({{"what", ""}, {"of the step", "wide"}, {"time", "number"}, {"what would help", ""}}) + rows + std::string(kTableEnd);
}

std::string shares_html(const Simulation& simulation) {
  std::string rows;
  for (const StepShare& s : step_shares(simulation))
    if (s.time.value > 0)
      rows += "<tr>" + cell(escape_html(s.name), "") + cell(bar_html(s.share, percent(s.share)), "wide") +
              cell(format_duration(s.time)) + cell(escape_html(s.meaning), "text soft") + "</tr>\n";
  if (rows.empty()) return "";
  return head({{"", ""}, {"of the step, mean over GPUs", "wide"}, {"time", "number"}, {"", ""}}) + rows + std::string(kTableEnd);
}

std::string timeline_html(const SimulationAnswer& answer, const TimelineData& data) {
  if (data.num_drawn == 0) return "";
  const std::string_view messages =
      answer.plan.simulation.messages.empty()
          ? ""
          : "<label><input id=\"show-messages\" type=\"checkbox\" checked> messages</label>";
  return fmt::format(kControls, messages) +
         "<div id=\"timeline\" class=\"chart\"><canvas tabindex=\"0\" role=\"img\" aria-label=\"What every stream of every "
         "GPU does when; the tables on this page have the sums\"></canvas></div>\n"
         "<div id=\"activities\" class=\"legend\"></div>\n"
         "<p class=\"soft screen\">Drag to move, Ctrl and wheel or double-click to zoom, arrows, + and - with the keyboard; "
         "point at a span for its details. Pale: waits for launches or for a message.</p>\n" +
         paragraph_html(thinning_text(answer, data), "soft");
}

std::string memory_html(const SimulationAnswer& answer, const TimelineData& data) {
  const Simulation& s = answer.plan.simulation;
  if (std::none_of(s.ranks.begin(), s.ranks.begin() + std::ptrdiff_t(data.num_ranks), [](const auto& r) { return !r.memory.empty(); }))
    return "";
  return "<div id=\"memory\" class=\"chart\"><canvas tabindex=\"0\" role=\"img\" aria-label=\"Bytes of live tensors over the "
         "step\"></canvas></div>\n<div id=\"curves\" class=\"legend\"></div>\n" +
         paragraph_html("Live tensors; the shaded curve is the fullest GPU. The allocator's cache and the context come on top.", "soft");
}

std::string topology_html(const SimulationAnswer& answer) {
  const std::string picture = answer.topology_svg.empty() ? "" : "<figure class=\"scroll\">" + answer.topology_svg + "</figure>\n";
  return picture + table_html(links_table(answer.plan.simulation, 12));
}

std::string comparison_html(const SimulationAnswer& answer) {
  if (answer.comparison.empty()) return "";
  double fastest = 0;
  for (const SimulatedPlan& plan : answer.comparison) fastest = std::max(fastest, plan.tokens_per_second);
  std::string rows;
  for (const SimulatedPlan& plan : answer.comparison)
    rows += comparison_row(plan, fastest, plan_name(plan) == plan_name(answer.plan));
  return head({{"strategy", ""}, {"fits", ""}, {"memory", "number"}, {"step", "number"}, {"tokens/s", "wide"},
               {"exposed", "number"}, {"compute", "number"}, {"cost", "number"}}) +
         rows + std::string(kTableEnd);
}

std::string scaling_html(const SimulationAnswer& answer) {
  if (answer.scaling.empty()) return "";
  std::string rows;
  for (const SimulatedPlan& plan : answer.scaling) {
    const double efficiency = scaling_efficiency(plan, answer.scaling.front());
    rows += "<tr>" + cell(format_grouped(plan.estimate.num_gpus_used)) + fits_cell(plan) +
            cell(format_short_duration(plan.simulation.step_time())) + cell(per_second(plan.tokens_per_second)) +
            cell(per_second(plan.tokens_per_second_per_gpu)) + cell(bar_html(efficiency, percent(efficiency)), "wide") +
            cost_cell(plan) + "</tr>\n";
  }
  return head({{"GPUs", "number"}, {"fits", ""}, {"step", "number"}, {"tokens/s", "number"}, {"per GPU", "number"},
               {"efficiency", "wide"}, {"cost", "number"}}) +
         rows + std::string(kTableEnd);
}

}  // namespace gpuplan
