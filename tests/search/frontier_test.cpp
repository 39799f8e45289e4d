#include "search/frontier.h"

#include <algorithm>
#include <limits>
#include <random>

#include <doctest/doctest.h>

using namespace gpuplan;

namespace {

std::vector<Merit> random_merits(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Merit> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back({.time = double(1 + random() % 50),
                   .cost = double(1 + random() % 50),
                   .headroom = double(random() % 30) / 100,
                   .room = 0,
                   .quality = Quality(random() % 3),
                   .fit = random() % 4 == 0 ? Fit::Tight : Fit::Yes,
                   .simplicity = std::int64_t(random() % 9)});
    out.back().room = std::clamp(out.back().headroom, 0.0, kUsefulHeadroom);
  }
  return out;
}

constexpr double kError = 0.15;
constexpr Wishes kOwn{Preference::Speed, Preference::Cost, kError, kError, kError, false},
    kCheapest{Preference::Cost, Preference::Speed, kAlike, kAlike, kWorthRow, true},
    kFast{Preference::Speed, Preference::Cost, kError, kAlike, kWorthRow, true};

/// At least as good in everything, and better in something or listed first.
bool dominates(const std::vector<Merit>& all, std::size_t a, std::size_t b) {
  const auto room = [&](std::size_t i) { return all[i].room; };
  if (all[a].quality < all[b].quality) return false;
  if (all[a].time > all[b].time || all[a].cost > all[b].cost || room(a) < room(b)) return false;
  return all[a].time < all[b].time || all[a].cost < all[b].cost || room(a) > room(b) ||
         all[a].quality > all[b].quality || a < b;
}

}  // namespace

TEST_CASE("the frontier is what no other plan dominates, as a comparison of all pairs finds it") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const std::vector<Merit> all = random_merits(200, seed);
    std::vector<std::size_t> expected;
    for (std::size_t i = 0; i < all.size(); ++i) {
      bool is_dominated = false;
      for (std::size_t j = 0; j < all.size(); ++j) is_dominated |= j != i && dominates(all, j, i);
      if (!is_dominated) expected.push_back(i);
    }
    std::vector<std::size_t> found = pareto(all);
    std::sort(found.begin(), found.end());
    CHECK(found == expected);
  }
}

TEST_CASE("the best is within what the wishes allow of the best by the first, and fits well where anything does") {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    const std::vector<Merit> all = random_merits(100, seed);
    for (const Wishes& wishes : {kOwn, kCheapest, kFast}) {
      const Merit& best = all[best_of(all, wishes)];
      CHECK(best.fit == Fit::Yes);
      for (const Merit& m : all)
        if (m.fit == Fit::Yes) CHECK(score(best, wishes.first) <= score(m, wishes.first) * (1 + wishes.first_error));
    }
  }
}

TEST_CASE("of plans that are else as good one that surely fits is taken, though another is simpler") {
  std::vector<Merit> all{{.time = 10, .cost = 1, .chance = 0.8, .fit = Fit::Yes, .simplicity = 1},
                         {.time = 10.2, .cost = 1, .chance = 0.94, .fit = Fit::Yes, .simplicity = 2}};
  CHECK(best_of(all, kOwn) == 1);
  all[1].chance = 0.85;
  CHECK(best_of(all, kOwn) == 0);
}

TEST_CASE("whoever pays is shown no plan that another beats in time and money and fits as surely") {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    const std::vector<Merit> all = random_merits(200, seed);
    for (const Wishes& wishes : {kCheapest, kFast}) {
      const std::vector<std::size_t> rows = frontier(all, wishes, 6);
      for (const std::size_t row : rows) {
        const Merit& shown = all[row];
        // the first may look like what beats it: its figures differ by less than can be seen
        const double hair = row == rows.front() ? 1 + kAlike : 1;
        for (const Merit& m : all)
          CHECK_FALSE((m.time * hair < shown.time && m.cost * hair < shown.cost && m.room >= shown.room &&
                       m.quality >= shown.quality && rank_of(m) >= rank_of(shown)));
      }
    }
  }
}

TEST_CASE("a larger budget never gives a plan that is worse in what was asked for") {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    const std::vector<Merit> all = random_merits(100, seed);
    for (const Wishes& wishes : {kCheapest, kFast}) {
      double before = std::numeric_limits<double>::infinity();
      for (double budget = 1; budget <= 50; ++budget) {
        std::vector<Merit> within;
        for (const Merit& m : all)
          if (m.cost <= budget && m.fit == Fit::Yes) within.push_back(m);
        if (within.empty()) continue;
        const double now = score(within[best_of(within, wishes)], wishes.first);
        CHECK(now <= before * (1 + kAlike));
        before = std::min(before, now);
      }
    }
  }
}

TEST_CASE("on one's own machine the simpler plan is chosen inside the error, outside it the better one") {
  const Merit simple{.time = 110,
                     .cost = 10,
                     .headroom = 0.2,
                     .room = 0.2,
                     .quality = Quality::Good,
                     .fit = Fit::Yes,
                     .simplicity = 1};
  Merit quick = simple;
  quick.time = 100, quick.simplicity = 5;
  CHECK(best_of({quick, simple}, kOwn) == 1);  // 110 <= 1.15 x 100
  Wishes exact = kOwn;
  exact.first_error = 0.05;
  CHECK(best_of({quick, simple}, exact) == 0);  // 110 > 1.05 x 100
}

TEST_CASE("of plans that cost the same the faster is the best, and of those alike the simpler") {
  const Merit simple{.time = 100,
                     .cost = 10,
                     .headroom = 0.2,
                     .room = 0.99,
                     .quality = Quality::Good,
                     .fit = Fit::Yes,
                     .simplicity = 1};
  Merit quick = simple, same = simple, sure = simple;
  quick.time = 50, quick.simplicity = 5;
  same.time = 99.8, same.cost = 9.98, same.simplicity = 5;  // 0.2 %
  CHECK(best_of({simple, quick, same}, kCheapest) == 1);
  CHECK(best_of({same, simple}, kCheapest) == 1);
  sure.simplicity = 5;
  Merit unsure = simple;
  unsure.room = 0.82;
  CHECK(best_of({unsure, sure}, kCheapest) == 1);
}

TEST_CASE("a plan with offload is the best where it is more than twice as fast, however it fits without") {
  const Merit plain{.time = 100,
                    .cost = 10,
                    .headroom = 0.2,
                    .room = 0.2,
                    .quality = Quality::Good,
                    .fit = Fit::Yes,
                    .simplicity = 1};
  Merit offloaded = plain;
  offloaded.offloads = true;
  for (const auto& [time, best] : {std::pair{60.0, 0}, std::pair{49.0, 1}}) {
    offloaded.time = time;
    CHECK(best_of({plain, offloaded}, kOwn) == std::size_t(best));
  }
  CHECK(best_of({plain, offloaded}, {Preference::Memory, Preference::Speed, kError, kError, kError, false}) == 0);
  Merit pipeline = plain;  // of GPUs that take turns: offload need only be faster
  pipeline.takes_turns = true;
  offloaded.time = 60;
  CHECK(best_of({pipeline, offloaded}, kOwn) == 1);
  CHECK(best_of({pipeline, plain, offloaded}, kOwn) != 2);
  offloaded.fit = Fit::Tight;
  CHECK(best_of({plain, offloaded}, kOwn) == 0);
}

TEST_CASE("of rows that are alike within the error the one that fits well is shown, not the tight one") {
  const Merit cheap{.time = 100, .cost = 5, .room = 0.99, .chance = 0.99, .quality = Quality::Good, .fit = Fit::Yes};
  Merit tight = cheap, safe = cheap;
  tight.time = 50, tight.cost = 10, tight.room = tight.chance = 0.6, tight.fit = Fit::Tight;
  safe.time = 50.4, safe.cost = 10.1;  // 1 % more of either
  CHECK(frontier({cheap, tight, safe}, kCheapest, 6) == std::vector<std::size_t>{0, 2});
  safe.time = 60;  // no longer alike: both are shown
  CHECK(frontier({cheap, tight, safe}, kCheapest, 6) == std::vector<std::size_t>{0, 1, 2});
}

TEST_CASE("shown rows are the best first, at most as many as asked for, none covered by another") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const std::vector<Merit> all = random_merits(300, seed);
    for (const Wishes& wishes : {kOwn, kCheapest}) {
      const std::vector<std::size_t> rows = frontier(all, wishes, 6);
      REQUIRE_FALSE(rows.empty());
      CHECK(rows.size() <= 6);
      CHECK(rows.front() == best_of(all, wishes));
      for (std::size_t i = 0; i < rows.size(); ++i)
        for (std::size_t j = i + 1; j < rows.size(); ++j) CHECK(rows[i] != rows[j]);
    }
  }
  CHECK(frontier({}, kOwn, 5).empty());
}
