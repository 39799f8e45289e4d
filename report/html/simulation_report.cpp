#include "report/html/simulation_report.h"

#include <fmt/format.h>

#include "report/html/html.h"
#include "report/html/page_parts.h"
#include "report/html/report_sections.h"
#include "report/text/estimate_text.h"
#include "report/text/simulation_facts.h"
#include "report/text/simulation_tables.h"

namespace gpuplan {
namespace {

constexpr std::size_t kMaxRows = 64;

std::string title_text(const SimulationAnswer& answer) {
  const std::int64_t gpus = answer.plan.estimate.num_gpus_used;
  return fmt::format("{} with {} on {} GPU{}", answer.request.model.name, plan_name(answer.plan), gpus,
                     gpus == 1 ? "" : "s");
}

/// Nothing may be fetched: a page that tries is stopped by the browser.
std::string head_html(const SimulationAnswer& answer) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'; img-src data:\">\n"
      "<meta name=\"generator\" content=\"gpuplan {}\">\n<title>{}</title>\n<style>{}</style>\n</head>\n",
      GPUPLAN_VERSION, escape_html(title_text(answer) + " - gpuplan"), page_style());
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
  return head_html(answer) + "<body>\n<header>\n<h1>" + escape_html(title_text(answer)) + "</h1>\n" +
         paragraph_html("What one training step does, and why it takes as long as it does: simulated, not measured",
                        "soft") +
         "</header>\n" + paragraph_html(fit_warning(answer.plan), "warning") + tiles_html(answer) +
         sections_html(answer, data) +
         fmt::format("<footer>gpuplan {}</footer>\n<div id=\"tip\" role=\"status\"></div>\n", GPUPLAN_VERSION) +
         data_html(answer, std::move(data.json)) + "<script>" + std::string(page_script()) +
         "</script>\n</body>\n</html>\n";
}

}  // namespace gpuplan
