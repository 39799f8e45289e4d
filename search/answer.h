// The answer of `gpuplan plan`: the recommended plan and the few beside it, each simulated; what every knob of the
// recommended plan is worth; what was rejected and why; and where nothing meets the limits, the smallest changes that
// would.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "search/plan_row.h"
#include "search/search.h"

namespace gpuplan {

struct SearchAnswer {
  std::vector<PlanRow> rows;  // the recommended one first; empty: nothing meets the limits
  std::vector<PlanRow>
      by_gpu;  // the best of each other kind of GPU that can be rented, the best first; as many at most
  std::optional<PlanRow> undated;  // that would be a row if somebody dated its price, and beats one
  std::vector<PlanRow>
      with_offload;            // cheaper than the first row, where the cheapest is asked for and it offloads nothing
  std::int64_t num_equal = 0;  // other plans that are as good as the recommended one, but for the error
  std::vector<Knob> knobs;
  std::vector<WouldDo> would_do;
  /// The reason where no plan is possible, whatever the limits: what the nearest one lacks, or the rules that refuse
  /// most combinations.
  std::string why_none;
  /// The question without what is searched, on the machine with the most GPUs, where every combination is refused,
  /// whatever memory there is: an estimate may say of it which flag is wrong.
  std::optional<EstimateRequest> refused;
  Rejected rejected;
  std::int64_t num_plans = 0;
  double seconds{};  // of the search
  bool is_complete = true;
  double error{};  // relative difference that counts as none

  bool has_plan() const { return !rows.empty(); }
};

/// `given`: the user's flags that a command repeats, "--model llama-3-8b --rows 50000". `most`: rows at most.
SearchAnswer answer(const SearchQuestion& question, const std::string& given, std::size_t most,
                    const SearchOptions& options = {});

}  // namespace gpuplan
