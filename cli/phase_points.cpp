#include "cli/phase_points.h"

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <string_view>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "cli/arguments.h"
#include "cli/plan_question.h"
#include "models/training_method.h"
#include "planner/plan/plan_file.h"
#include "planner/rollout_phases.h"
#include "planner/strategy_estimate.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr double kGib = 0x1p30;

EstimateRequest request_of(const std::string& flags) {
  std::vector<std::string> args{"estimate"};
  for (const std::string& word : split(flags, ' '))
    if (!word.empty()) args.push_back(word);
  CLI::App app;
  declare_commands(app, args);
  const Parsed parsed = parse(app, args);
  std::istringstream nothing;
  EstimateRequest request = read_plan_question(*parsed.app, nothing).request;
  request.not_given = {};
  return request;
}

/// Seconds of one generation with all that is trained on it.
double seconds_of(const StrategyEstimate& e, PhaseKind kind, double steps) {
  double sum = 0;
  for (const PhaseFigures& phase : e.phases)
    if (phase.kind == kind) sum += phase.time.step.value;
  return steps * sum;
}

/// The question of a point: a line of flags, or a saved plan.
EstimateRequest request_of(const json& row) {
  return row.contains("plan") ? parse_plan(row.at("plan"), "plan") : request_of(row.at("flags").get<std::string>());
}

/// A figure that a point may state: the seconds of a kind of phase, bytes of a tier, or neither.
struct PointFigure {
  std::string_view name;
  std::optional<PhaseKind> kind;
  Bytes MemoryTiers::*tier = nullptr;
};
constexpr std::array kFigures{PointFigure{"generation_seconds", PhaseKind::Generation},
                              PointFigure{"old_log_prob_seconds", PhaseKind::OldLogProbs},
                              PointFigure{"train_seconds", PhaseKind::Training},
                              PointFigure{"weight_sync_seconds", PhaseKind::WeightSync},
                              PointFigure{"step_seconds", {}},
                              PointFigure{"tokens_per_second", {}},
                              PointFigure{"allocated_gib", {}, &MemoryTiers::tensors},
                              PointFigure{"reserved_gib", {}, &MemoryTiers::reserved},
                              PointFigure{"process_gib", {}, &MemoryTiers::process}};

double predicted(const std::string& name, const StrategyEstimate& e, double steps) {
  const auto figure = std::ranges::find(kFigures, name, &PointFigure::name);
  if (figure == kFigures.end()) {
    std::string names;
    for (const PointFigure& row : kFigures) names += (names.empty() ? "" : ", ") + std::string(row.name);
    throw InputError("", fmt::format("unknown figure '{}'", name), names);
  }
  if (figure->kind) return seconds_of(e, *figure->kind, steps);
  if (figure->tier) return double((e.tiers.*(figure->tier)).count) / kGib;
  return figure->name == "step_seconds" ? steps * e.time.step.value : e.tokens_per_second;
}

PhasePoint judged(const json& row) {
  PhasePoint p{.id = row.at("id"), .source = row.at("source"), .flags = row.value("flags", "")};
  p.outcome = row.value("outcome", ""), p.note = row.value("note", "");
  p.counts = row.value("counts", true);
  const json measured = row.value("measured", json::object());
  try {
    const EstimateRequest request = request_of(row);
    validate_recipe(request.recipe, request.model, request.cluster);
    // an engine runs on one GPU too: it shards nothing there and keeps its data types
    const Job job(request, make_strategy(request.strategy, request.cluster, request.options));
    StepProgram program;
    const StrategyEstimate e = estimate_strategy(job, program, Parts::None);
    const double steps = generates(job.recipe()) ? job_rollout(job).steps : 1;
    if (!p.outcome.empty()) p.fit = e.fit;
    for (const auto& [name, value] : measured.items())
      p.figures.push_back({name, value.get<double>(), predicted(name, e, steps)});
  } catch (const InputError& error) {
    p.refused = error.where().empty() ? error.problem() : fmt::format("{}: {}", error.where(), error.problem());
  }
  return p;
}

}  // namespace

std::optional<std::vector<PhasePoint>> judge_phase_points(const std::string& file) {
  std::istringstream lines(read_file(file));
  std::vector<PhasePoint> points;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (trim(line).empty()) continue;
    try {
      const json row = json::parse(line);
      if (points.empty() && !(row.is_object() && (row.contains("flags") || row.contains("plan")))) return {};
      points.push_back(judged(row));
    } catch (const json::exception& error) {
      if (points.empty()) return {};
      throw InputError(fmt::format("{}:{}", file, number), error.what());
    }
  }
  if (points.empty()) return {};
  return points;
}

}  // namespace gpuplan
