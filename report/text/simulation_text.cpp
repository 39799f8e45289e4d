#include "report/text/answers_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/unit_text.h"
#include "report/text/amounts.h"
#include "report/text/line_budget.h"
#include "report/text/phase_lines.h"
#include "report/text/simulation_facts.h"
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
    const Ink verdict = ink_of(e.fit), figure = e.fits() ? Ink::Plain : Ink::Faint;
    table.add(
        {{fmt::format("  {}", plan_name(plan)), figure},
         {verdict_text(e), verdict},
         {format_bytes(shown_memory(e)), verdict},
         {format_short_duration(s.step_time()), figure},
         {format_grouped(std::llround(plan.tokens_per_second)), figure},
         {bar(fastest > 0 ? plan.tokens_per_second / fastest : 0, bar_width), e.fits() ? Ink::Accent : Ink::Faint},
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
               {verdict_text(plan.estimate), ink_of(plan.estimate.fit)},
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

namespace {

constexpr int kBarWidth = 20;
constexpr std::size_t kMaxRanks = 8, kMaxLinks = 8;

std::string section(std::string_view title, const std::string& text, const Screen& screen) {
  return text.empty() ? "" : heading(title, screen) + text;
}

std::string question(const SimulationAnswer& answer, const Screen& screen) {
  return question_text({answer.request, answer.result, &answer.plan.estimate, {}}, screen);
}

std::string gantt_title(const Simulation& simulation, const GanttView& view) {
  const SimTime all = simulation.with_gradients(), end = std::min(view.end.value_or(all), all);
  if (view.begin.ps == 0 && end == all) return all < simulation.step ? "The pass with gradients" : "One step";
  return fmt::format("The step from {} to {}", format_duration(view.begin.seconds()), format_duration(end.seconds()));
}

}  // namespace

std::string speed_text(const SimulationAnswer& answer, const Screen& screen) {
  return render(speed_facts(answer), 2, screen);
}

std::string step_shares_text(const Simulation& simulation, const Screen& screen) {
  Table table{.columns = {{"  part"}, {"of the step"}, {"time", Align::Right}, {"", Align::Left, 1}}, .rows = {}};
  for (const StepShare& s : step_shares(simulation))
    if (s.time.value > 0)
      table.add({{"  " + s.name},
                 {fmt::format("{} {:3.0f} %", bar(s.share, kBarWidth), 100 * s.share), Ink::Accent},
                 {format_duration(s.time)},
                 {s.meaning, Ink::Faint}});
  return table.rows.empty() ? "" : render(table, screen);
}

std::string streams_text(const Simulation& simulation, const Screen& screen) {
  const Table table = streams_table(simulation, kMaxRanks);
  if (table.rows.empty()) return "";
  std::string out = render(table, screen);
  if (const std::int64_t left = num_not_shown(simulation, kMaxRanks); left > 0)
    out +=
        fmt::format("  {} of {} simulated GPUs are not listed; --json has them all\n", left, simulation.ranks.size());
  return out;
}

std::string critical_text(const Simulation& simulation, const Screen& screen) {
  std::string out;
  if (screen.format != TableFormat::Text) {
    Table table{.columns = {{"critical path"}, {"of the step"}, {"time"}, {"what would help"}}, .rows = {}};
    for (const CriticalItem& item : simulation.critical)
      table.add(
          {{item.what}, {fmt::format("{:.0f} %", 100 * item.share)}, {format_duration(item.time)}, {item.remedy}});
    return table.rows.empty() ? "" : render(table, screen);
  }
  for (const CriticalItem& item : simulation.critical) {
    const std::string share = fmt::format("{:3.0f} %  ", 100 * item.share);
    out += wrap(
        fmt::format("{}, {}{}", item.what, format_duration(item.time), item.remedy.empty() ? "" : ": " + item.remedy),
        prose_width(screen), "  " + share, std::string(2 + share.size(), ' '));
  }
  return out;
}

std::string links_text(const Simulation& simulation, const Screen& screen) {
  const Table table = links_table(simulation, kMaxLinks);
  if (table.rows.empty()) return "";
  std::string out = render(table, screen);
  if (simulation.links.size() > kMaxLinks)
    out += fmt::format("  and {} links less busy\n", simulation.links.size() - kMaxLinks);
  return out;
}

namespace {

/// The answer of `simulate` on one screen: at most kFirstScreen lines.
std::string first_simulation_text(const SimulationAnswer& answer, const GanttView& view, const Screen& screen) {
  const Simulation& simulation = answer.plan.simulation;
  std::string head;
  for (const std::string& line : {step_text(answer), bound_text(simulation), fit_warning(answer.plan)})
    if (!line.empty()) head += wrap(line, prose_width(screen), "", "  ");
  // tables that were asked for stand first, whole
  head += section("Compared", comparison_text(answer.comparison, screen), screen) +
          section("Scaling", scaling_text(answer.scaling, screen), screen) + points(answer.not_compared, screen);
  LineBudget out(std::max(kFirstScreen - 1, narrow<int>(std::ranges::count(head, '\n'))), screen);
  out.add(head);
  out.add("\n" + question(answer, screen));
  out.add(section("Phases of the step", phase_lines_text(answer.plan.estimate, screen), screen));
  out.add(section(gantt_title(simulation, view), gantt_text(simulation, view, screen), screen));
  out.add(section("Where the step goes, mean over GPUs", step_shares_text(simulation, screen), screen));
  return out.take() +
         fmt::format("--explain: what the step waits for, streams, links, {} assumptions\n", answer.assumptions.size());
}

}  // namespace

std::string simulation_text(const SimulationAnswer& answer, const GanttView& view, const Screen& screen) {
  const Simulation& simulation = answer.plan.simulation;
  if (answer.is_brief) return first_simulation_text(answer, view, screen);
  const std::string warning = fit_warning(answer.plan);
  std::string out;
  for (const std::string& line : {step_text(answer), bound_text(simulation)})
    out += wrap(line, prose_width(screen), "", "  ");
  out += "\n" + question(answer, screen);
  if (!warning.empty()) out += "\n" + paint(wrap(warning, prose_width(screen), "", ""), Ink::Bad, screen);
  out += heading(answer.plan.estimate.strategy.name, screen) + speed_text(answer, screen);
  out += section("Where the step goes, mean over GPUs", step_shares_text(simulation, screen), screen);
  out += section("What the step waits for: the critical path", critical_text(simulation, screen), screen);
  out += section("Phases of the step", phase_lines_text(answer.plan.estimate, screen), screen);
  out += section("Streams in use", streams_text(simulation, screen), screen);
  if (screen.format == TableFormat::Text)
    out += section(gantt_title(simulation, view), gantt_text(simulation, view, screen), screen);
  out += section("Busiest links", links_text(simulation, screen), screen);
  out += section("Compared", comparison_text(answer.comparison, screen), screen);
  out += section("Scaling", scaling_text(answer.scaling, screen), screen);
  out += section("How it was simulated", wrap(method_text(answer), prose_width(screen), "  ", "  "), screen);
  return out + section("Assumptions", points(answer.assumptions, screen), screen);
}

}  // namespace gpuplan
