#include "report/answers.h"

#include <algorithm>

#include "planner/refusal.h"
#include "planner/strategy.h"
#include "validate/ranges.h"

namespace gpuplan {

InputError no_strategy(const EstimateResult& result) {
  if (auto refused = refusal_of(result.request)) return *refused;
  const std::string& strategy = result.request.strategy;
  const auto row = std::ranges::find_if(result.strategies, [&](const StrategyEstimate& e) {
    return strategy != "auto" || has_strategy(result.framework, e.strategy.name);
  });
  const std::string why = (row == result.strategies.end() ? result.strategies.front() : *row).not_applicable;
  if (result.recommended && !result.recommended->advice.empty())
    return InputError("--strategy", why, result.recommended->advice.front());
  return InputError(
      "--strategy", why,
      strategy == "auto" ? "other GPUs, or another --framework" : "leave --strategy out to let gpuplan choose");
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
