// What the time of a step means for the whole job: speed, use of the cards, time and cost of the data. Estimate and
// simulation ask the same function, each with its own step time.
#pragma once

#include <optional>

#include "planner/estimate.h"

namespace gpuplan {

struct RunFigures {
  std::int64_t global_batch{};  // sequences per optimizer step
  double tokens_per_second{};   // of the whole job
  double mfu{};                 // model FLOPs over the datasheet rates of the GPUs
  std::int64_t steps_per_epoch{};
  Seconds epoch, total;            // once through the data, and as often as asked
  std::optional<double> cost_usd;  // of all epochs, on the GPUs that the strategy uses
};

/// `peak`: the datasheet rates of all GPUs together.
RunFigures job_metrics(const EstimateRequest& request, const TrainedModel& model, const Strategy& strategy,
                       Seconds step, FlopsPerSec peak);

}  // namespace gpuplan
