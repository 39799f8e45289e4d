// The reliability of verdicts: probabilities are asked of runs that worked or ran out of memory, and of measured peaks
// on cards of every size, which are as many questions whose answer is known. No range knows the source that it is asked
// about.
#pragma once

#include <cstddef>
#include <vector>

#include "validate/judge.h"

namespace gpuplan {

/// Questions whose answers were given with probabilities from `from` to `to`.
struct ReliabilityBand {
  double from{}, to{};
  std::size_t num_questions{}, num_sources{};
  double stated{}, happened{};         // mean probability, and share that would have run; sources weigh alike
  double least_of_a_source{}, most{};  // of `happened`
};

struct Reliability {
  std::vector<ReliabilityBand> bands;           // those in which questions are
  std::size_t num_runs{}, num_out_of_memory{};  // with a stated capacity
  /// Mean of -ln of what the outcome was given, by the probability, and by its word alone: of the word's runs in other
  /// sources, with one more of either outcome. Less is better.
  double score{}, score_of_words{};
};

/// `not_seen`: judged without what was fitted on their sources; `results`: as judged now.
Reliability measure_reliability(const std::vector<PointResult>& not_seen, const std::vector<PointResult>& results);

}  // namespace gpuplan
