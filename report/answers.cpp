#include "report/answers.h"

#include "validate/ranges.h"

namespace gpuplan {

namespace {

/// The degree that was asked for beside a strategy; the first of several. Empty: none.
std::string_view asked_degree(const StrategyOptions& options) {
  return options.ep > 1 ? "--ep" : options.tp > 1 ? "--tp" : options.pp > 1 ? "--pp" : options.cp > 1 ? "--cp" : "";
}

}  // namespace

InputError no_strategy(const EstimateResult& result) {
  const std::string& why = result.strategies.front().not_applicable;
  const std::string_view degree = asked_degree(result.request.options);
  if (!degree.empty())
    return InputError(std::string(degree), why, "leave it out, or name a --framework that has it for this model");
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
