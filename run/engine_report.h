// Predicted against measured of a run by another program's engine, and what the next prediction learns from it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/estimate.h"
#include "run/engine.h"
#include "run/run_report.h"

namespace gpuplan {

struct EngineReport {
  EstimateRequest request;
  Strategy strategy;
  std::string engine;  // "torchrun"
  EngineOutcome outcome;
  std::vector<PredictedMeasured> memory;  // bytes: tensors, process
  std::vector<PredictedMeasured> time;    // seconds: step
  std::int64_t timed_steps = 0;           // that its median is taken of
  double tokens_per_second = 0;           // of the whole job, at that time
};

/// `chosen` is the estimate of the request's strategy.
EngineReport make_engine_report(const EstimateRequest& request, const StrategyEstimate& chosen,
                                const std::string& engine, const EngineOutcome& outcome);

/// Keeps it beside the profile, as keep_run of run/run_report.h; it corrects estimates of the same framework.
std::string keep_engine_run(const EngineReport& report, const Profile& profile);

}  // namespace gpuplan
