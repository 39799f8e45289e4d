// Neighbours of a simulated plan: other strategies on the same GPUs, the same strategy on more GPUs.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "report/text/amounts.h"
#include "report/text/simulation_facts.h"
#include "report/text/simulation_text.h"
#include "report/text/table.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

std::string cost_cell(const SimulatedPlan& plan) { return plan.cost_usd ? format_usd(*plan.cost_usd) : ""; }

Table comparison_table(std::span<const SimulatedPlan> plans, int bar_width) {
  Table table{.columns = {{"  strategy"},
                          {"fits"},
                          {"peak", Align::Right},
                          {"step", Align::Right},
                          {"tokens/s", Align::Right},
                          {"", Align::Left, 5},
                          {"exposed", Align::Right, 1},
                          {"compute", Align::Right, 3},
                          {"MFU", Align::Right, 4},
                          {"cost", Align::Right, 2}},
              .rows = {}};
  double fastest = 0;
  for (const SimulatedPlan& plan : plans) fastest = std::max(fastest, plan.tokens_per_second);
  for (const SimulatedPlan& plan : plans) {
    const StrategyEstimate& e = plan.estimate;
    if (!e.not_applicable.empty()) continue;
    const Simulation& s = plan.simulation;
    const double exposed = s.step.ps > 0 ? s.exposed_communication / s.step_time() : 0;
    const Ink verdict = e.fits ? Ink::Good : Ink::Bad, figure = e.fits ? Ink::Plain : Ink::Faint;
    table.add({{fmt::format("  {}", plan_name(plan)), figure},
               {e.fits ? "yes" : "no", verdict},
               {format_bytes(e.tiers.process), verdict},
               {format_short_duration(s.step_time()), figure},
               {format_grouped(std::llround(plan.tokens_per_second)), figure},
               {bar(fastest > 0 ? plan.tokens_per_second / fastest : 0, bar_width), e.fits ? Ink::Accent : Ink::Faint},
               {fmt::format("{:.0f} %", 100 * exposed), figure},
               {fmt::format("{:.0f} %", 100 * s.compute), figure},
               {fmt::format("{:.0f} %", 100 * plan.mfu), figure},
               {cost_cell(plan), figure}});
  }
  return without_empty_columns(std::move(table));
}

Table scaling_table(std::span<const SimulatedPlan> plans, int bar_width) {
  Table table{.columns = {{"  GPUs", Align::Right},
                          {"fits"},
                          {"step", Align::Right},
                          {"tokens/s", Align::Right},
                          {"per GPU", Align::Right},
                          {"efficiency"},
                          {"cost", Align::Right, 1}},
              .rows = {}};
  for (const SimulatedPlan& plan : plans) {
    const double efficiency = scaling_efficiency(plan, plans.front());
    table.add({{fmt::format("  {}", plan.estimate.num_gpus_used)},
               {plan.estimate.fits ? "yes" : "no", plan.estimate.fits ? Ink::Good : Ink::Bad},
               {format_short_duration(plan.simulation.step_time())},
               {format_grouped(std::llround(plan.tokens_per_second))},
               {format_grouped(std::llround(plan.tokens_per_second_per_gpu))},
               {fmt::format("{} {:3.0f} %", bar(efficiency, bar_width), 100 * efficiency), Ink::Accent},
               {cost_cell(plan)}});
  }
  return without_empty_columns(std::move(table));
}

}  // namespace

std::string comparison_text(std::span<const SimulatedPlan> plans, const Screen& screen) {
  std::string out = render_with_bars([&](int width) { return comparison_table(plans, width); }, screen);
  for (const SimulatedPlan& plan : plans)
    if (!plan.estimate.not_applicable.empty())
      out +=
          wrap(fmt::format("{}: {}", plan_name(plan), plan.estimate.not_applicable), prose_width(screen), "  ", "    ");
  return out;
}

std::string scaling_text(std::span<const SimulatedPlan> plans, const Screen& screen) {
  return plans.empty() ? "" : render_with_bars([&](int width) { return scaling_table(plans, width); }, screen);
}

}  // namespace gpuplan
