// A search against an estimate of every plan by itself.
#pragma once

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "search/search.h"

namespace gpuplan::test {

inline auto place_of(const RankedPlan& p) {
  return std::tuple(p.way, p.machine, p.strategy, p.batch.micro, p.batch.accum, p.offer);
}

/// Both lists, sorted by place, have the same plans; each has the same figures but for a share of `equal`.
inline void check_equal(std::vector<RankedPlan> found, std::vector<RankedPlan> expected, double equal) {
  const auto less = [](const RankedPlan& a, const RankedPlan& b) { return place_of(a) < place_of(b); };
  std::sort(found.begin(), found.end(), less);
  std::sort(expected.begin(), expected.end(), less);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(place_of(found[i]) == place_of(expected[i]));
    CHECK(found[i].fit == expected[i].fit);
    CHECK(found[i].process == expected[i].process);
    CHECK(found[i].step.value == doctest::Approx(expected[i].step.value).epsilon(equal));
    CHECK(found[i].total.value == doctest::Approx(expected[i].total.value).epsilon(equal));
    CHECK(found[i].cost == doctest::Approx(expected[i].cost).epsilon(equal));
  }
}

/// Brute force's plans without those whose offload is needless, each of which is slower, dearer and no better than the
/// same without offload.
inline std::vector<RankedPlan> without_needless_offload(const Space& space, const std::vector<RankedPlan>& all) {
  std::map<decltype(place_of(all.front())), const RankedPlan*> by_place;
  for (const RankedPlan& plan : all) by_place.emplace(place_of(plan), &plan);
  std::vector<RankedPlan> out;
  for (const RankedPlan& plan : all) {
    const auto without = space.ways[plan.way].without_offload;
    RankedPlan same = plan;
    if (without) same.way = std::uint32_t(*without);
    const auto at = by_place.find(place_of(same));
    const bool is_needless =
        without && at != by_place.end() && at->second->fit == Fit::Yes && at->second->headroom() >= kUsefulHeadroom;
    if (!is_needless) {
      out.push_back(plan);
      continue;
    }
    CAPTURE(space.ways[plan.way].flags);
    CHECK(plan.total.value >= at->second->total.value * (1 - 1e-9));
    CHECK(plan.cost >= at->second->cost * (1 - 1e-9));
    CHECK(plan.quality == at->second->quality);
    CHECK(plan.simplicity >= at->second->simplicity);
    CHECK(plan.offloads);
  }
  return out;
}

/// The search finds what brute force finds; returns how many plans it skipped.
inline std::int64_t compare_with_brute_force(const SearchQuestion& q, double equal = 1e-12) {
  const Space space(q);
  const Ranking found = search(space).ranking;
  check_equal(found.plans, without_needless_offload(space, search_by_brute_force(space).plans), equal);
  std::int64_t rejected = 0;
  for (const auto& [why, count] : found.rejected) rejected += count;
  CHECK(found.num_plans == rejected + std::int64_t(found.plans.size()));
  return found.num_skipped;
}

}  // namespace gpuplan::test
