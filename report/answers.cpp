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

/// The degree that was asked for beside a strategy, the first of several that the trainer does not have; or null.
const Degree* asked_degree(const EstimateRequest& request) {
  const Degree* asked = nullptr;
  for (const Degree& degree : kDegrees) {
    if (request.options.*degree.ways <= 1) continue;
    if (!degree.is_had(*request.recipe.framework)) return &degree;
    if (!asked) asked = &degree;
  }
  return asked;
}

}  // namespace

std::string instead_of_nothing(const EstimateRequest& request) {
  const Degree* const degree = asked_degree(request);
  return degree ? without(*degree, *request.recipe.framework) : "";
}

InputError no_strategy(const EstimateResult& result) {
  const std::string& why = result.strategies.front().not_applicable;
  if (const Degree* degree = asked_degree(result.request))
    return InputError(std::string(degree->flag), why, without(*degree, *result.request.recipe.framework));
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
