#include "report/answers.h"

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/framework.h"
#include "validate/ranges.h"

namespace gpuplan {

namespace {

/// A degree of the flags that split a model, and the trainers' facts about it.
struct Degree {
  std::string_view flag;
  std::int64_t StrategyOptions::*ways;
  bool (*is_had)(const FrameworkConvention&);
};
constexpr std::array kDegrees{
    Degree{"--ep", &StrategyOptions::ep, [](const auto& f) { return !f.expert_parallel.strategies.empty(); }},
    Degree{"--etp", &StrategyOptions::etp, [](const auto& f) { return f.expert_parallel.cuts_experts; }},
    Degree{"--tp", &StrategyOptions::tp, [](const auto& f) { return !f.tensor_parallel.strategies.empty(); }},
    Degree{"--pp", &StrategyOptions::pp, [](const auto& f) { return !f.pipeline.strategies.empty(); }},
    Degree{"--cp", &StrategyOptions::cp, [](const auto& f) { return !f.context_parallel.strategies.empty(); }}};

/// "leave --tp out, or take a trainer that has it: --framework megatron, torchtitan".
std::string without(const Degree& degree, const FrameworkConvention& asked) {
  if (degree.is_had(asked)) return fmt::format("leave {} out, or give other GPUs or another strategy", degree.flag);
  std::vector<std::string> names;
  for (const FrameworkConvention& record : list_frameworks())
    if (degree.is_had(record)) names.push_back(record.name);
  return fmt::format("leave {} out, or take a trainer that has it: --framework {}", degree.flag,
                     fmt::join(names, ", "));
}

/// Says why a strategy is not possible with other options.
std::string why_not(const EstimateRequest& request, const std::string& strategy) {
  try {
    const Strategy made = make_strategy(strategy, request.cluster, options_for(request));
    return why_not_applicable(made, request.cluster, request.recipe, request.model);
  } catch (const InputError& error) { return error.problem(); }
}

/// Holds a flag that stands in the way of a strategy, and what would be right instead.
struct Obstacle {
  std::string flag, instead;
  bool is_found = true;  // without it there is another reason, or none
};

/// Layers of stages that do not go with the model; nothing where others are the reason.
std::optional<Obstacle> wrong_stages(const EstimateRequest& request, const StrategyEstimate& row) {
  if (request.options.stage_layers.empty()) return {};
  EstimateRequest even = request;
  even.options.stage_layers.clear();
  const std::string why = why_not(even, row.strategy.name);
  if (why == row.not_applicable) return {};
  return Obstacle{"--stage-layers",
                  fmt::format("one number for each of {} stages, {} layers in all; 0 is an even share "
                              "of the rest{}",
                              request.options.pp, request.model.num_layers(), why.empty() ? "; or leave it out" : "")};
}

/// Finds the degree that was asked for: the first of several that the trainer does not have, else the first without
/// which there is another reason, or none, else the first.
std::optional<Obstacle> wrong_degree(const EstimateRequest& request, const StrategyEstimate& row) {
  std::optional<Obstacle> asked;
  for (const Degree& degree : kDegrees) {
    if (request.options.*degree.ways <= 1) continue;
    EstimateRequest other = request;
    other.options.*degree.ways = 1;
    const bool is_had = degree.is_had(*request.recipe.framework),
               is_found = !is_had || why_not(other, row.strategy.name) != row.not_applicable;
    if (!asked || !is_had || (is_found && !asked->is_found))
      asked = Obstacle{std::string(degree.flag), without(degree, *request.recipe.framework), is_found};
    if (!is_had) break;
  }
  return asked;
}

std::optional<Obstacle> obstacle(const EstimateRequest& request, const StrategyEstimate& row) {
  const auto stages = wrong_stages(request, row);
  return stages ? stages : wrong_degree(request, row);
}

}  // namespace

std::string instead_of_nothing(const EstimateResult& result) {
  std::optional<Obstacle> found;
  for (const StrategyEstimate& row : result.strategies) {
    if (row.not_applicable.empty()) continue;
    const auto one = obstacle(result.request, row);
    if (one && (!found || (one->is_found && !found->is_found))) found = one;
  }
  return !found ? "" : found->flag == "--stage-layers" ? found->flag + ": " + found->instead : found->instead;
}

InputError no_strategy(const EstimateResult& result) {
  const std::string& why = result.strategies.front().not_applicable;
  if (const auto found = obstacle(result.request, result.strategies.front()))
    return InputError(found->flag, why, found->instead);
  return InputError("--strategy", why,
                    result.request.strategy == "auto" ? "other GPUs, or another --framework"
                                                      : "leave --strategy out to let gpuplan choose");
}

ValidationAnswer validate_points(std::vector<Point> points, const TimeRefinement& refine) {
  ValidationAnswer answer;
  answer.points = std::move(points);
  PointPlanner planner(AliasTable::read());
  Judgement judgement = judge(answer.points, planner, refine);
  answer.results = std::move(judgement.results);
  answer.memory = summarise_memory(answer.results);
  answer.speed = summarise_speed(answer.results);
  answer.cross_validation = read_cross_validation();
  answer.not_seen = not_seen(answer.results, answer.cross_validation);
  answer.memory_not_seen = summarise_memory(answer.not_seen);
  answer.speed_not_seen = summarise_speed(answer.not_seen);
  answer.ranges = fit_accuracy(answer.not_seen);
  answer.reliability = measure_reliability(answer.not_seen, answer.results);
  for (EmpiricalConstant& constant : empirical_constants(judgement.profiles)) {
    const std::size_t users =
        constant.use == ConstantUse::Memory ? answer.memory.represented : answer.speed.represented;
    if (users > 0) answer.constants.push_back(std::move(constant));
  }
  return answer;
}

}  // namespace gpuplan
