// Predicted against measured: what estimate and simulate said of the plan, and what running it gave.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/estimate.h"
#include "run/training.h"
#include "sim/simulation.h"

namespace gpuplan {

/// One line of the table. Bytes or seconds, as its list says.
struct PredictedMeasured {
  std::string name;
  double predicted{}, measured{};
  double error() const { return measured > 0 ? predicted / measured - 1 : 0; }
};

/// The rows that a report may have, in their order; tensors, process and step are in all of them.
std::vector<std::string> memory_row_names();
std::vector<std::string> time_row_names();

struct RunReport {
  StrategyEstimate estimate;
  Simulation predicted;  // of one step
  Simulation measured;   // the last step of rank 0, in the same form
  TrainingOutcome outcome;
  EstimateRequest request;
  Strategy strategy;
  std::int64_t num_layers{};
  std::vector<PredictedMeasured> memory;  // bytes of rank 0, by category at the peak; then tensors, process
  std::vector<PredictedMeasured> time;    // seconds of rank 0: phases, then the step
  std::int64_t timed_steps{};             // that the step's time is the median of
  double tokens_per_second{};             // of the whole job, at that time
};

struct RunFacts {
  const NativeJob& job;
  RankPlace place;
  const StrategyEstimate& chosen;
  const TrainingOutcome& outcome;
};

RunReport make_run_report(const RunFacts& facts);

/// Record of the run for the next prediction, if it and its steps were long enough and it was predicted with a profile
/// of this user. `date`: today's.
std::optional<RunRecord> run_record(const RunReport& report, const Profile& profile, const std::string& date);

/// Keeps that beside the profile, for the next estimate. Says so in a line for people; empty when there is nothing to
/// keep.
std::string keep_run(const RunReport& report, const Profile& profile);

}  // namespace gpuplan
