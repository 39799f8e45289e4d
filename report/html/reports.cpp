#include "report/html/reports.h"

#include <fmt/format.h>

#include "base/unit_text.h"
#include "report/html/one_file.h"
#include "report/json/answers_json.h"
#include "report/text/answers_text.h"
#include "report/text/simulation_facts.h"

namespace gpuplan {
namespace {

using Json = nlohmann::ordered_json;

Json facts_json(const std::vector<Fact>& facts) {
  Json out = Json::array();
  for (const Fact& fact : facts)
    if (!fact.text.empty()) out.push_back({fact.label, fact.text});
  return out;
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

Json shares_json(const Simulation& simulation) {
  Json out = Json::array();
  for (const StepShare& share : step_shares(simulation))
    if (share.time.value > 0)
      out.push_back(
          {{"name", share.name}, {"meaning", share.meaning}, {"share", share.share}, {"seconds", share.time.value}});
  return out;
}

}  // namespace

std::string estimate_report(const EstimateAnswer& answer, const std::string& command) {
  return one_file_page(answer.request.model.name,
                       {{"kind", "estimate"}, {"command", command}, {"answer", estimate_json(answer)}});
}

std::string plan_report(const PlanAnswer& answer) {
  return one_file_page(fmt::format("A plan for {}", answer.question.base.model.name),
                       {{"kind", "plan"}, {"command", answer.command}, {"answer", plan_json(answer)}});
}

std::string simulation_report(const SimulationAnswer& answer, const TimelineLimits& limits) {
  const Simulation& simulation = answer.plan.simulation;
  TimelineData timeline = timeline_data(simulation, answer.result.model.num_layers(), limits);
  const std::string name = fmt::format("{} with {}", answer.request.model.name, plan_name(answer.plan));
  return one_file_page(
      name, {{"kind", "simulate"},
             {"command", answer.command},
             {"answer", simulation_json(answer)},
             {"timeline", std::move(timeline.json)},
             {"thinned", thinning_text(answer, timeline)},
             {"shares", shares_json(simulation)},
             {"facts", facts_json(speed_facts(answer))},
             {"question", facts_json(question_facts({answer.request, answer.result, &answer.plan.estimate, {}}))},
             {"method", method_text(answer)},
             {"topology", answer.topology_svg}});
}

std::string diagnosis_report(const DiagnosisAnswer& answer) {
  const Diagnosis& d = answer.diagnosis;
  Json parts = Json::array();
  if (d.measured.parts && d.predicted_parts) {
    const Table table = parts_table(*d.measured.parts, *d.predicted_parts);
    Json titles = Json::array();
    for (const Column& column : table.columns) titles.push_back(column.title);
    parts.push_back(std::move(titles));
    for (const std::vector<Cell>& row : table.rows) {
      Json cells = Json::array();
      for (const Cell& cell : row) cells.push_back(cell.text);
      parts.push_back(std::move(cells));
    }
  }
  Json predictions = Json::array();
  for (const Explanation& e : d.explanations) predictions.push_back(prediction_with(e, d));
  return one_file_page(fmt::format("A measured step of {}", d.request.model.name),
                       {{"kind", "diagnose"},
                        {"answer", diagnosis_json(answer)},
                        {"lines", gap_lines(d)},
                        {"no_explanation", no_explanation(d)},
                        {"predictions", std::move(predictions)},
                        {"parts", std::move(parts)},
                        {"notes", reading_notes(answer)}});
}

}  // namespace gpuplan
