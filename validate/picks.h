// Where one source compared settings of the same job on the same hardware: is the one that we would pick its best?
#pragma once

#include <string>
#include <vector>

#include "validate/judge.h"

namespace gpuplan {

/// One comparison. Of speed, the setting with the most tokens per second; of memory, the one that needs the least.
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

}  // namespace gpuplan
