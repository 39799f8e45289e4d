// The ways to run a training otherwise: settings of planner/changes and strategies, each estimated, the one to take
// first in front.
#pragma once

#include "mend/fix.h"

namespace gpuplan {

/// Settings and a strategy that are not those of the files.
struct MendWay {
  std::vector<Setting> settings;
  std::string strategy;  // empty: as it is
  StrategyEstimate estimate;
  std::size_t num_changes{};
};

/// Says whether a plan fits well; by another goal than to fit also where it rests on a host of which nothing is known,
/// as the files do, and asks no more of it.
bool serves(const StrategyEstimate& plan, Goal goal, const std::optional<StrategyEstimate>& before);

/// The strategy that the files mean, or the one to recommend where they leave it open; nothing where none is possible.
std::optional<StrategyEstimate> estimate_as_given(const Variant& variant);

/// Ways that fit (and, by the goal, are better than `before` by more than the error): the fewest changes first among
/// those that are not much slower than the fastest, then the others. `most_changes`: how many settings together.
std::vector<MendWay> find_ways(const FixQuestion& question, const std::optional<StrategyEstimate>& before,
                               std::size_t most_changes);

}  // namespace gpuplan
