// From everything that fits to the few plans that are worth a look: the best by a preference, and the Pareto frontier
// of time, cost and room. Where money is paid, figures are taken as they are; elsewhere differences inside the error of
// predictions count as none.
#pragma once

#include <vector>

#include "search/ranker.h"

namespace gpuplan {

/// Figures of a plan as the choice sees them. Smaller time and cost, larger headroom and quality are better.
struct Merit {
  double time{}, cost{}, headroom{};  // seconds; dollars or GPU hours; share of the usable memory that stays free
  double room{};  // what counts of it: that it fits, in whole per cent, on a rented machine; else the useful headroom
  double chance = 1;  // that it fits
  Quality quality{};
  Fit fit{};
  bool offloads = false;
  bool takes_turns = false;   // its GPUs compute one after the other
  std::int64_t simplicity{};  // lower is simpler
};

/// A rented machine takes about so long until it trains (start, image, weights, data, a failed start now and then): the
/// overhead of a search that says no other, and a training that is shorter is not better for it. An estimate of ours.
inline constexpr Seconds kReadyTime{15 * 60};

/// `total`: of the training, which counts as at least kReadyTime on a rented machine.
Merit merit_of(const RankedPlan& plan, Seconds total, double cost, bool is_rented);

/// Orders what decides: within so much of the best by the first wish the second does, and simplicity at last.
struct Wishes {
  Preference first = Preference::Speed, second = Preference::Cost;
  double first_error{}, second_error{};
  double row_error{};  // two rows differ by more in something
  bool is_exact{};     // rows are plans that nothing beats, not simpler ones that are as good within the error
};
/// Speed: time, then cost. Cost: cost, then time. Memory: headroom, then time. `error`: of predictions. Whoever pays by
/// the hour and asks for the cheapest gets it, and one who asks for speed the cheapest plan that is as fast as any
/// within the error: then a larger budget never gives a slower plan, nor a dearer one to who asks for the cheapest.
Wishes wishes_of(const SearchQuestion& question, double error);

/// Figures that differ by less look alike on the screen.
inline constexpr double kAlike = 0.005;
/// Less is not worth a row of its own.
inline constexpr double kWorthRow = 0.05;

/// More room than this share of the memory is worth nothing more.
inline constexpr double kUsefulHeadroom = 0.25;
/// Rooms that differ by less count as equal.
inline constexpr double kEqualHeadroom = 0.05;

/// Offload is worth its trouble where a plan with it is more than so many times faster or cheaper than those without;
/// no more than faster where GPUs take turns in all of those.
inline constexpr double kWorthOffload = 2;

/// The figure of a wish; smaller is better.
double score(const Merit& merit, Preference wish);

/// Says how sure and how simple it is to run: offload needs a host with memory to spare, a tight plan luck.
int rank_of(const Merit& merit);

/// A plan that is riskier than the best is shown where it is so many times as fast or as cheap.
inline constexpr double kWorthRisk = 1.15;

/// Index of the best among those that fit well and keep everything on the GPUs, else well with offload, else tightly;
/// with offload also where that is worth its trouble. Inside the error of every wish the simplest. Requires: not empty.
std::size_t best_of(const std::vector<Merit>& all, Wishes wishes);

/// Says whether `a` is at least as good as `b` in everything, but for the error.
bool is_no_worse(const Merit& a, const Merit& b, double error);

/// The indices of the exact Pareto frontier of time, cost, room and quality, the fastest first.
std::vector<std::size_t> pareto(const std::vector<Merit>& all);

/// The best first, then the others of the frontier that it is not as good as, each through an equal that fits more
/// surely, and through its simplest equal where the wishes are not exact: the fastest, the cheapest, the roomiest, then
/// what lies between, at most `most`. What is riskier than the best is far faster or cheaper.
std::vector<std::size_t> frontier(const std::vector<Merit>& all, Wishes wishes, std::size_t most);

}  // namespace gpuplan
