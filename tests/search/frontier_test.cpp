#include "search/frontier.h"

#include <algorithm>
#include <random>

#include <doctest/doctest.h>

using namespace gpuplan;

namespace {

std::vector<Merit> random_merits(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Merit> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back({.time = double(1 + random() % 50),
                   .cost = double(1 + random() % 50),
                   .headroom = double(random() % 30) / 100,
                   .quality = Quality(random() % 3),
                   .fit = random() % 4 == 0 ? Fit::Tight : Fit::Yes,
                   .simplicity = std::int64_t(random() % 9)});
  return out;
}

/// At least as good in everything, and better in something or listed first.
bool dominates(const std::vector<Merit>& all, std::size_t a, std::size_t b) {
  const auto room = [&](std::size_t i) { return std::clamp(all[i].headroom, 0.0, kUsefulHeadroom); };
  if (all[a].quality != all[b].quality) return false;
  if (all[a].time > all[b].time || all[a].cost > all[b].cost || room(a) < room(b)) return false;
  return all[a].time < all[b].time || all[a].cost < all[b].cost || room(a) > room(b) || a < b;
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

TEST_CASE("the best is within the error of the best by the first wish, and fits well where anything does") {
  constexpr double kError = 0.15;
  for (unsigned seed = 1; seed <= 50; ++seed) {
    const std::vector<Merit> all = random_merits(100, seed);
    for (const Wishes wishes : {Wishes{Preference::Speed, Preference::Cost}, Wishes{Preference::Cost, std::nullopt}}) {
      const Merit& best = all[best_of(all, wishes, kError)];
      CHECK(best.fit == Fit::Yes);
      for (const Merit& m : all)
        if (m.fit == Fit::Yes && wishes.first == Preference::Speed) CHECK(best.time <= m.time * (1 + kError));
      for (const Merit& m : all)
        if (m.fit == Fit::Yes && wishes.first == Preference::Cost) CHECK(best.cost <= m.cost * (1 + kError));
    }
  }
}

TEST_CASE("inside the error the simpler plan is chosen, outside it the better one") {
  const Merit simple{
      .time = 110, .cost = 10, .headroom = 0.2, .quality = Quality::Good, .fit = Fit::Yes, .simplicity = 1};
  Merit quick = simple;
  quick.time = 100, quick.simplicity = 5;
  const Wishes wishes{Preference::Speed, Preference::Cost};
  CHECK(best_of({quick, simple}, wishes, 0.15) == 1);  // 110 <= 1.15 x 100
  CHECK(best_of({quick, simple}, wishes, 0.05) == 0);  // 110 > 1.05 x 100
}

TEST_CASE("a plan with offload is the best where it is more than twice as fast, however it fits without") {
  const Merit plain{
      .time = 100, .cost = 10, .headroom = 0.2, .quality = Quality::Good, .fit = Fit::Yes, .simplicity = 1};
  Merit offloaded = plain;
  offloaded.offloads = true;
  const Wishes wishes{Preference::Speed, Preference::Cost};
  for (const auto& [time, best] : {std::pair{60.0, 0}, std::pair{49.0, 1}}) {
    offloaded.time = time;
    CHECK(best_of({plain, offloaded}, wishes, 0.15) == std::size_t(best));
  }
  CHECK(best_of({plain, offloaded}, {Preference::Memory, Preference::Speed}, 0.15) == 0);
  Merit pipeline = plain;  // of GPUs that take turns: offload need only be faster
  pipeline.takes_turns = true;
  offloaded.time = 60;
  CHECK(best_of({pipeline, offloaded}, wishes, 0.15) == 1);
  CHECK(best_of({pipeline, plain, offloaded}, wishes, 0.15) != 2);
  offloaded.fit = Fit::Tight;
  CHECK(best_of({plain, offloaded}, wishes, 0.15) == 0);
}

TEST_CASE("shown rows are the best first, at most as many as asked for, none covered by another") {
  constexpr double kError = 0.15;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const std::vector<Merit> all = random_merits(300, seed);
    const Wishes wishes{Preference::Cost, Preference::Speed};
    const std::vector<std::size_t> rows = frontier(all, wishes, kError, 6);
    REQUIRE_FALSE(rows.empty());
    CHECK(rows.size() <= 6);
    CHECK(rows.front() == best_of(all, wishes, kError));
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (std::size_t j = i + 1; j < rows.size(); ++j) CHECK(rows[i] != rows[j]);
  }
  CHECK(frontier({}, {}, kError, 5).empty());
}
