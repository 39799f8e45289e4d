// One rank of a plan in this process: opens its device, joins the other ranks, trains, and on rank 0 reports.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "run/launch.h"
#include "run/run_report.h"

namespace gpuplan {

struct RankJob {
  const EstimateRequest& request;
  const EstimateResult& result;
  const StrategyEstimate& chosen;
  const TrainingOptions& options;
  std::function<void(const StepMetrics&, std::int64_t total_steps)> on_step;  // rank 0
};

/// Trains this rank's part of the plan. The first SIGINT, SIGTERM, SIGHUP, SIGUSR1 or SIGUSR2 lets it save and end
/// after its step, a second one ends it at once. The report is rank 0's; nullopt on the others. Throws InputError and
/// EnvError.
std::optional<RunReport> run_rank(const RankJob& job, const LaunchedRank& launched);

/// Lets the rank that failed first speak. Called while an exception of a rank is handled, before it is printed: returns
/// at once on that rank (where nobody keeps that: rank 0). The others wait, and are ended meanwhile, so that what all
/// ranks meet is said once.
void let_first_rank_speak(const LaunchedRank& launched);

DeviceKind device_kind(const ClusterSpec& cluster);

}  // namespace gpuplan
