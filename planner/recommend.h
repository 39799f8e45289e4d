// Which strategy of an answer to take, what is better than it, and what would help when nothing fits.
//
// The rule of the star, over plans whose free settings are chosen already (planner/free_choice.h):
//  1. those of the highest rank_of(): the verdict, from the chance that the plan runs (kYesFrom, kTightFrom of
//     planner/tiers.h), and who waits for whom;
//  2. of these, those within the error of a time (`time_error` of data/profiles) of the best by --prefer;
//  3. of these, those within that error of the best by the second wish;
//  4. of these, those that are about as likely to fit as the likeliest;
//  5. of these, the simplest: the first row of planner/strategy.cpp, behind all of them what splits the model along an
//  axis.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "planner/strategy_estimate.h"

namespace gpuplan {

/// Says why a strategy that is possible is not chosen where none is asked for, or empty: FSDP over one GPU shards
/// nothing, and what offloads there is ZeRO, where the trainer has it.
std::string why_not_chosen(const Strategy& strategy, const FrameworkConvention& framework);

/// Says how good a plan's verdict is, better ones higher; 0: it does not fit. Plans whose GPUs take turns stand below
/// those of the same verdict that keep all of them at work, and those that rest on a host of which nothing is known
/// below all, first those that fit well on the GPUs.
int rank_of(const StrategyEstimate& plan);
/// The highest: it fits well, and no GPU waits for another's turn.
inline constexpr int kWorksTogether = 8;

/// Smaller is better: seconds per token; GPU seconds per token, which all cost alike here; or bytes.
double score_of(const StrategyEstimate& plan, Preference preference);
/// Gives what decides inside the error of the first.
Preference second_wish(Preference first);

/// Chances to fit that differ by less count as equal.
inline constexpr double kAlikeChance = 0.1;

/// Says whether a strategy cannot run for another reason than its memory.
bool is_refused(const StrategyEstimate& e);

/// Leaves out what is clearly less likely to fit than the likeliest.
template <class Item, class ChanceOf>
void keep_likeliest(std::vector<Item>& of, ChanceOf chance_of) {
  double most = 0;
  for (const Item& item : of) most = std::max(most, chance_of(item));
  std::erase_if(of, [&](const Item& item) { return chance_of(item) < most - kAlikeChance; });
}

/// Holds what the rule above reads of a plan; `first` and `second` are its scores.
struct Contender {
  int rank{};
  double first{}, second{}, chance{};
  std::int64_t simplicity{};
};

/// Index of the plan that the rule above takes. Requires: not empty.
std::size_t best_of(std::span<const Contender> all, double error);

/// The plan that the rule above takes; null where nothing fits. `error`: of a prediction, 0.15 for 15 %.
const StrategyEstimate* best_of(std::span<const StrategyEstimate> rows, Preference preference, double error);

/// The advice where nothing that was tried helps.
inline constexpr std::string_view kNothingHelps =
    "no change that gpuplan knows makes it fit: choose a smaller model or GPUs with more memory";

/// The best of result.strategies by the rule above. When nothing fits, `strategy` is empty and `advice` lists the
/// changes that would make something fit, smallest change first, each tried. `asked`: the request before anything was
/// chosen freely; changes are made to it.
Recommendation recommend(const EstimateRequest& request, const EstimateRequest& asked, const EstimateResult& result);

}  // namespace gpuplan
