// How far off the predicted times are, and how often two settings are put in the right order.
#pragma once

#include <string>
#include <vector>

#include "validate/judge.h"
#include "validate/report.h"

namespace gpuplan {

/// Pairs that one source measured on the same hardware and that differ by more than 10 % in tokens per second: how many
/// are predicted in their measured order.
struct PairOrder {
  std::size_t right{}, pairs{};
  double share() const { return pairs ? double(right) / double(pairs) : 0; }
};

/// Errors are ln(predicted / measured) of the time; above 0 is too slow.
struct SpeedSummary {
  std::size_t scoreable{}, represented{}, num_sources{};
  double median{}, p90{}, bias{};  // pooled: |error|, |error|, error
  double mean_of_source_medians{};
  PairOrder order, order_same_model;
};

SpeedSummary summarise_speed(const std::vector<PointResult>& results);

struct SpeedRow {
  std::string key;
  SpeedSummary summary;
};
std::vector<SpeedRow> speed_by(const std::vector<PointResult>& results, Grouping grouping);

/// The machines a point ran on, as a text that is equal for equal machines.
std::string hardware_of(const Point& point);

/// Our choice where one source compared settings of the same job on the same hardware. Of speed, the best has the most
/// tokens per second; of memory, it needs the least.
struct Pick {
  PointKind kind{};
  std::string source, job;   // job: model, method, length, hardware; for memory also the batch
  std::string picked, best;  // ids
  std::size_t num_settings{};
  double regret{};  // measured time (or memory) of our pick over the best's, less 1
  bool is_best() const { return picked == best; }
};

struct PickSummary {
  std::vector<Pick> picks;
  std::size_t num_best{}, num_close{};  // close: within 5 % of the best
  double mean_regret{}, worst_regret{};
};

/// Over the scored points of one kind. Comparisons whose settings measure the same are left out.
PickSummary judge_picks(const std::vector<PointResult>& results, PointKind kind);

/// The decision of `gpuplan plan`, judged: jobs that one source ran in several configurations with the same global
/// batch on the same hardware, whose measured speeds differ by more than kContested.
struct PlanPicks {
  std::size_t num_jobs{}, num_close{};  // close: our pick is within 10 % of the best
  double median_regret{};
};
inline constexpr double kContested = 0.10;
PlanPicks judge_plans(const std::vector<PointResult>& results);

}  // namespace gpuplan
