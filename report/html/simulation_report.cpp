#include "report/html/reports.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "report/html/html.h"
#include "report/html/page_parts.h"
#include "report/text/amounts.h"
#include "report/text/answers_text.h"
#include "report/text/simulation_facts.h"

namespace gpuplan {
namespace {

std::string tile(std::string_view figure, std::string_view what) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", escape_html(figure), escape_html(what));
}

/// Says what was left out of the timeline, and how to see it.
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

/// The figures that matter, large.
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

std::string fits_cell(const SimulatedPlan& plan) {
  const Fit fit = plan.estimate.fit;
  return cell_html(verdict_text(plan.estimate), fit == Fit::Yes ? "good" : fit == Fit::Tight ? "tight" : "bad");
}

std::string cost_cell(const SimulatedPlan& plan) {
  return cell_html(plan.cost_usd ? escape_html(format_usd(*plan.cost_usd)) : "");
}

std::string comparison_row(const SimulatedPlan& plan, double fastest, bool is_chosen) {
  if (!plan.estimate.not_applicable.empty())
    return fmt::format("<tr><td>{}</td><td colspan=\"7\" class=\"text\">not applicable: {}</td></tr>\n",
                       escape_html(plan_name(plan)), escape_html(plan.estimate.not_applicable));
  const Simulation& s = plan.simulation;
  const double exposed = s.step.ps > 0 ? s.exposed_communication / s.step_time() : 0;
  return fmt::format("<tr{}>{}", is_chosen ? " class=\"chosen\"" : "", cell_html(escape_html(plan_name(plan)), "")) +
         fits_cell(plan) + cell_html(format_bytes(plan.estimate.tiers.process)) +
         cell_html(format_short_duration(s.step_time())) +
         cell_html(bar_html(fastest > 0 ? plan.tokens_per_second / fastest : 0, per_second(plan.tokens_per_second),
                            plan.estimate.fits() ? "" : "no"),
                   "wide") +
         cell_html(escape_html(percent(exposed))) + cell_html(escape_html(percent(s.compute))) + cost_cell(plan) +
         "</tr>\n";
}

std::string comparison_html(const SimulationAnswer& answer) {
  if (answer.comparison.empty()) return "";
  double fastest = 0;
  for (const SimulatedPlan& plan : answer.comparison) fastest = std::max(fastest, plan.tokens_per_second);
  std::string rows;
  for (const SimulatedPlan& plan : answer.comparison)
    rows += comparison_row(plan, fastest, plan_name(plan) == plan_name(answer.plan));
  return table_head_html({{"strategy", ""},
                          {"fits", ""},
                          {"memory", "number"},
                          {"step", "number"},
                          {"tokens/s", "wide"},
                          {"exposed", "number"},
                          {"compute", "number"},
                          {"cost", "number"}}) +
         rows + std::string(kTableEnd);
}

std::string scaling_html(const SimulationAnswer& answer) {
  if (answer.scaling.empty()) return "";
  std::string rows;
  for (const SimulatedPlan& plan : answer.scaling) {
    const double efficiency = scaling_efficiency(plan, answer.scaling.front());
    rows += "<tr>" + cell_html(format_grouped(plan.estimate.num_gpus_used)) + fits_cell(plan) +
            cell_html(format_short_duration(plan.simulation.step_time())) +
            cell_html(per_second(plan.tokens_per_second)) + cell_html(per_second(plan.tokens_per_second_per_gpu)) +
            cell_html(bar_html(efficiency, percent(efficiency)), "wide") + cost_cell(plan) + "</tr>\n";
  }
  return table_head_html({{"GPUs", "number"},
                          {"fits", ""},
                          {"step", "number"},
                          {"tokens/s", "number"},
                          {"per GPU", "number"},
                          {"efficiency", "wide"},
                          {"cost", "number"}}) +
         rows + std::string(kTableEnd);
}

constexpr std::size_t kMaxRows = 64;

std::string title_text(const SimulationAnswer& answer) {
  const std::int64_t gpus = answer.plan.estimate.num_gpus_used;
  return fmt::format("{} with {} on {} GPU{}", answer.request.model.name, plan_name(answer.plan), gpus,
                     gpus == 1 ? "" : "s");
}

std::string data_html(const SimulationAnswer& answer, nlohmann::ordered_json data) {
  const MemoryTiers& tiers = answer.plan.estimate.tiers;
  data["capacity"] = tiers.usable.count;
  data["process"] = tiers.process.count;
  const std::string json = data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return "<script type=\"application/json\" id=\"data\">" + escape_script_json(json) + "</script>\n";
}

std::string made_html(const SimulationAnswer& answer) {
  return (answer.command.empty() ? "" : "<pre><code>" + escape_html(answer.command) + "</code></pre>\n");
}

std::string sections_html(const SimulationAnswer& answer, const TimelineData& data) {
  const Simulation& simulation = answer.plan.simulation;
  return section_html("What the step waits for", critical_html(simulation)) +
         section_html("Where the step goes", shares_html(simulation)) +
         section_html("Timeline of one step", timeline_html(answer, data)) +
         section_html("Memory over the step", memory_html(answer, data)) +
         section_html("Streams in use", table_html(streams_table(simulation, kMaxRows))) +
         section_html("The machine", topology_html(answer)) + section_html("Compared", comparison_html(answer)) +
         section_html("Scaling", scaling_html(answer)) + section_html("Figures", facts_html(speed_facts(answer))) +
         section_html("The question",
                      facts_html(question_facts({answer.request, answer.result, &answer.plan.estimate, {}}))) +
         section_html("How it was simulated", paragraph_html(method_text(answer)) + made_html(answer)) +
         section_html("Assumptions", list_html(answer.assumptions));
}

}  // namespace

std::string simulation_report(const SimulationAnswer& answer, const TimelineLimits& limits) {
  TimelineData data = timeline_data(answer.plan.simulation, answer.result.model.num_layers(), limits);
  return page_head_html(title_text(answer)) + "<body>\n<header>\n<h1>" + escape_html(title_text(answer)) + "</h1>\n" +
         paragraph_html("What one training step does, and why it takes as long as it does: simulated, not measured",
                        "soft") +
         "</header>\n" + paragraph_html(fit_warning(answer.plan), "warning") + tiles_html(answer) +
         sections_html(answer, data) +
         fmt::format("<footer>gpuplan {}</footer>\n<div id=\"tip\" role=\"status\"></div>\n", GPUPLAN_VERSION) +
         data_html(answer, std::move(data.json)) + "<script>" + std::string(page_script()) +
         "</script>\n</body>\n</html>\n";
}

}  // namespace gpuplan
