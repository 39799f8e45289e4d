// Which strategy of an answer to take, what is better than it, and what would help when nothing fits.
#pragma once

#include <span>
#include <string_view>

#include "planner/strategy_estimate.h"

namespace gpuplan {

/// Says how good a plan's verdict is, better ones higher; 0: it does not fit. Plans whose GPUs take turns stand below
/// those of the same verdict that keep all of them at work, and those that rest on a host of which nothing is known
/// below all, first those that fit well on the GPUs.
int rank_of(const StrategyEstimate& plan);
/// The highest: it fits well, and no GPU waits for another's turn.
inline constexpr int kWorksTogether = 8;

/// Smaller is better: seconds per token, dollars per token (GPU seconds where no price is known), or bytes.
double score_of(const StrategyEstimate& plan, Preference preference);
/// Gives what decides inside the error of the first.
Preference second_wish(Preference first);

/// The best of those that fit, or where there are none, fit tightly; null where nothing does. What lies within `error`
/// of the best is decided by the next wish, then by simplicity.
const StrategyEstimate* best_of(std::span<const StrategyEstimate> rows, Preference preference, double error);

/// The advice where nothing that was tried helps.
inline constexpr std::string_view kNothingHelps =
    "no change that gpuplan knows makes it fit: choose a smaller model or GPUs with more memory";

/// The best of result.strategies under the request's preference. Inside the model's error the simplest wins. When
/// nothing fits, `strategy` is empty and `advice` lists the changes that would make something fit, smallest change
/// first, each tried. `asked`: the request before anything was chosen freely; changes are made to it.
Recommendation recommend(const EstimateRequest& request, const EstimateRequest& asked, const EstimateResult& result);

}  // namespace gpuplan
