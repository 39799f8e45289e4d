// Sections of the report on neighbours of the plan: other strategies, other numbers of GPUs.
#include <algorithm>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "report/html/html.h"
#include "report/html/report_cells.h"
#include "report/html/report_sections.h"
#include "report/text/amounts.h"
#include "report/text/simulation_facts.h"

namespace gpuplan {
namespace {

std::string fits_cell(const SimulatedPlan& plan) {
  return plan.estimate.fits ? cell_html("yes", "good") : cell_html("no", "bad");
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
                            plan.estimate.fits ? "" : "no"),
                   "wide") +
         cell_html(escape_html(percent(exposed))) + cell_html(escape_html(percent(s.compute))) + cost_cell(plan) +
         "</tr>\n";
}

}  // namespace

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

}  // namespace gpuplan
