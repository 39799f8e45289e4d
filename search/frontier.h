// From everything that fits to the few plans that are worth a look: the best by a preference, and the Pareto frontier
// of time, cost and headroom. Differences inside the error of predictions count as none.
#pragma once

#include <optional>
#include <vector>

#include "search/ranker.h"

namespace gpuplan {

/// Figures of a plan as the choice sees them. Smaller time and cost, larger headroom and quality are better.
struct Merit {
  double time{}, cost{}, headroom{};  // seconds; dollars or GPU hours; share of the usable memory that stays free
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

/// Orders what decides; inside the error of one wish the next one does, and simplicity at last.
struct Wishes {
  Preference first = Preference::Speed;
  std::optional<Preference> second;  // none: a machine is rented, where fewer GPUs are simpler
};
/// Speed: time, then cost. Cost: cost, then time, or on rented machines simplicity. Memory: headroom, then time.
Wishes wishes_of(const SearchQuestion& question);

/// More room than this share of the memory is worth nothing more.
inline constexpr double kUsefulHeadroom = 0.25;
/// Rooms that differ by less count as equal.
inline constexpr double kEqualHeadroom = 0.05;

/// Offload is worth its trouble where a plan with it is more than so many times faster or cheaper than those without;
/// no more than faster where GPUs take turns in all of those.
inline constexpr double kWorthOffload = 2;

/// Index of the best among those that fit well and keep everything on the GPUs, else well with offload, else tightly;
/// with offload also where that is worth its trouble. Inside the error of every wish the simplest. Requires: not empty.
std::size_t best_of(const std::vector<Merit>& all, Wishes wishes, double error);

/// Says whether `a` is at least as good as `b` in everything, but for the error.
bool is_no_worse(const Merit& a, const Merit& b, double error);

/// The indices of the exact Pareto frontier of time, cost and useful headroom within each quality, the fastest first.
std::vector<std::size_t> pareto(const std::vector<Merit>& all);

/// The best first, then the others of the frontier that it is not as good as, each through its simplest equal: the
/// fastest, the cheapest, the roomiest, then what lies between, at most `most`. None that is predicted above the
/// usable memory where the best is not.
std::vector<std::size_t> frontier(const std::vector<Merit>& all, Wishes wishes, double error, std::size_t most);

}  // namespace gpuplan
