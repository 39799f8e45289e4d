#include "report/html/report_sections.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "report/html/html.h"
#include "report/html/report_cells.h"
#include "report/text/amounts.h"
#include "report/text/simulation_facts.h"
#include "report/text/simulation_tables.h"

namespace gpuplan {
namespace {

std::string tile(std::string_view figure, std::string_view what) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", escape_html(figure), escape_html(what));
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
    "<button id=\"zoom-out\" type=\"button\">Zoom out</button><button id=\"zoom-all\" type=\"button\">Whole "
    "step</button>"
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
    rows += "<tr>" + cell_html(escape_html(item.what), "text") +
            cell_html(bar_html(item.share, percent(item.share)), "wide") + cell_html(format_duration(item.time)) +
            cell_html(escape_html(item.remedy), "text") + "</tr>\n";
  if (rows.empty()) return "";
  return table_head_html({{"what", ""}, {"of the step", "wide"}, {"time", "number"}, {"what would help", ""}}) + rows +
         std::string(kTableEnd);
}

std::string shares_html(const Simulation& simulation) {
  std::string rows;
  for (const StepShare& s : step_shares(simulation))
    if (s.time.value > 0)
      rows += "<tr>" + cell_html(escape_html(s.name), "") + cell_html(bar_html(s.share, percent(s.share)), "wide") +
              cell_html(format_duration(s.time)) + cell_html(escape_html(s.meaning), "text soft") + "</tr>\n";
  if (rows.empty()) return "";
  return table_head_html({{"", ""}, {"of the step, mean over GPUs", "wide"}, {"time", "number"}, {"", ""}}) + rows +
         std::string(kTableEnd);
}

std::string timeline_html(const SimulationAnswer& answer, const TimelineData& data) {
  if (data.num_drawn == 0) return "";
  const std::string_view messages =
      answer.plan.simulation.messages.empty()
          ? ""
          : "<label><input id=\"show-messages\" type=\"checkbox\" checked> messages</label>";
  return fmt::format(kControls, messages) +
         "<div id=\"timeline\" class=\"chart\"><canvas tabindex=\"0\" role=\"img\" aria-label=\"What every stream of "
         "every "
         "GPU does when; the tables on this page have the sums\"></canvas></div>\n"
         "<div id=\"activities\" class=\"legend\"></div>\n"
         "<p class=\"soft screen\">Drag to move, Ctrl and wheel or double-click to zoom, arrows, + and - with the "
         "keyboard; "
         "point at a span for its details. Pale: waits for launches or for a message.</p>\n" +
         paragraph_html(thinning_text(answer, data), "soft");
}

std::string memory_html(const SimulationAnswer& answer, const TimelineData& data) {
  const Simulation& s = answer.plan.simulation;
  if (std::none_of(s.ranks.begin(), s.ranks.begin() + std::ptrdiff_t(data.num_ranks),
                   [](const auto& r) { return !r.memory.empty(); }))
    return "";
  return "<div id=\"memory\" class=\"chart\"><canvas tabindex=\"0\" role=\"img\" aria-label=\"Bytes of live tensors "
         "over the "
         "step\"></canvas></div>\n<div id=\"curves\" class=\"legend\"></div>\n" +
         paragraph_html(
             "Live tensors; the shaded curve is the fullest GPU. The allocator's cache and the context come on top.",
             "soft");
}

std::string topology_html(const SimulationAnswer& answer) {
  const std::string picture =
      answer.topology_svg.empty() ? "" : "<figure class=\"scroll\">" + answer.topology_svg + "</figure>\n";
  return picture + table_html(links_table(answer.plan.simulation, 12));
}

}  // namespace gpuplan
