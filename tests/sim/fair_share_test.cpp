#include "sim/fair_share.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

#include "sim/naive_rates.h"

using namespace gpuplan;
using namespace gpuplan::literals;

namespace {

struct Instance {
  std::vector<double> capacities;
  std::vector<BytesPerSec> as_rates() const {
    std::vector<BytesPerSec> out;
    for (const double c : capacities) out.push_back({c});
    return out;
  }
};

}  // namespace

TEST_CASE("fair share: two flows on one link get half each; who is bound elsewhere leaves the rest to the other") {
  FairShare shares({100.0_GBps, 30.0_GBps});
  const auto wide = shares.add_route(Route{{.link = 0}}), both = shares.add_route(Route{{.link = 0}, {.link = 1}});
  shares.begin(0, wide);
  shares.begin(1, wide);
  CHECK(shares.settle().size() == 2);
  CHECK(shares.rate(0) == 50.0_GBps);
  shares.end(1);
  shares.begin(2, both);  // 30 GB/s on its own second link, 70 remain
  shares.settle();
  CHECK(shares.rate(2) == 30.0_GBps);
  CHECK(shares.rate(0) == 70.0_GBps);
  shares.end(2);
  const auto changed = shares.settle();
  REQUIRE(changed.size() == 1);
  CHECK(changed[0] == 0);
  CHECK(shares.rate(0) == 100.0_GBps);
}

TEST_CASE("fair share: the example of its header, three flows on two links") {
  FairShare shares({100.0_GBps, 30.0_GBps});
  const auto a = shares.add_route(Route{{.link = 0}}), both = shares.add_route(Route{{.link = 0}, {.link = 1}}),
             b = shares.add_route(Route{{.link = 1}});
  shares.begin(0, a);
  shares.begin(1, both);
  shares.begin(2, b);
  shares.settle();
  CHECK(shares.rate(0) == 85.0_GBps);
  CHECK(shares.rate(1) == 15.0_GBps);
  CHECK(shares.rate(2) == 15.0_GBps);
  shares.end(2);
  shares.settle();
  CHECK(shares.rate(0) == 70.0_GBps);
  CHECK(shares.rate(1) == 30.0_GBps);
}

TEST_CASE("fair share: who holds room is told when others need it, and only then") {
  FairShare shares({100.0_GBps, 100.0_GBps});
  const auto left = shares.add_route(Route{{.link = 0}}), right = shares.add_route(Route{{.link = 1}}),
             half = shares.add_route(Route{{.link = 0, .weight = 0.5}, {.link = 1, .weight = 1}});
  CHECK(shares.overfull(std::vector{left, right}) == std::vector{false, false});
  CHECK(shares.overfull(std::vector{left, half}) == std::vector{true, false});
  shares.hold(7, left);
  shares.hold(9, right);
  CHECK(shares.crowded().empty());
  shares.begin(0, half);  // 100 GB/s alone: half of link 0, all of link 1
  CHECK(shares.crowded() == std::vector<std::uint32_t>{7, 9});
  shares.let_go(7, left);
  shares.let_go(9, right);
  shares.settle();
  CHECK(shares.rate(0) == 100.0_GBps);
  shares.hold(7, left);  // the flow is still there
  shares.end(0);         // and gone before anybody asks
  CHECK(shares.crowded().empty());
  for (int k = 0; k < 100'000; ++k) {  // what comes and goes leaves nothing behind
    shares.hold(8, right);
    shares.let_go(8, right);
  }
  shares.begin(1, right);
  CHECK(shares.crowded().empty());
}

TEST_CASE("fair share: on many links at once, rates are those of progressive filling, change after change") {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    constexpr std::uint64_t kNumLinks = 60;
    const std::vector<double> capacities(kNumLinks, 50e9);
    Instance instance{capacities};
    FairShare shares(instance.as_rates());
    std::map<std::uint32_t, Route> active;
    for (int step = 0; step < 120; ++step) {
      if (active.size() > 70 || (step > 90 && !active.empty())) {
        const auto victim = std::next(active.begin(), std::int64_t(random() % active.size()));
        shares.end(victim->first);
        active.erase(victim);
      } else {
        std::uint32_t id = 0;
        while (active.count(id)) ++id;
        const Route route{{.link = std::uint32_t(random() % kNumLinks)}, {.link = std::uint32_t(random() % kNumLinks)}};
        shares.begin(id, shares.add_route(route));
        active[id] = route;
      }
      shares.settle();
      const auto expected = naive_rates(capacities, active);
      for (const auto& flow : active)
        CHECK(shares.rate(flow.first).value == doctest::Approx(expected.at(flow.first)).epsilon(1e-9));
    }
  }
}

TEST_CASE("fair share: a link carries the weight of a route, and a link named twice counts twice") {
  FairShare shares(std::vector{100.0_GBps});
  const auto eighth = shares.add_route(Route{{.link = 0, .weight = 0.125}});
  const auto twice = shares.add_route(Route{{.link = 0}, {.link = 0}});
  CHECK(shares.free_rate(eighth) == 800.0_GBps);
  CHECK(shares.free_rate(twice) == 50.0_GBps);
  shares.begin(0, eighth);
  shares.begin(1, twice);
  shares.settle();  // equal rates r: 0.125 r + 2 r = 100
  CHECK(shares.rate(0).value == doctest::Approx(100e9 / 2.125));
  CHECK(shares.rate(1) == shares.rate(0));
}

TEST_CASE("fair share: over any history, rates are those of progressive filling from scratch, and max-min fair") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t n) { return random() % n; };
    Instance instance;
    for (std::uint64_t k = 0, n = 1 + below(8); k < n; ++k)
      instance.capacities.push_back(seed % 2 ? double(1 + below(4)) * 10e9 : 1e9 + double(below(100'000'000'000)));
    FairShare shares(instance.as_rates());
    std::map<std::uint32_t, Route> active;
    for (int step = 0; step < 80; ++step) {
      for (std::uint64_t change = 0, n = 1 + below(4); change < n; ++change) {  // several at one moment
        if (!active.empty() && below(2) == 0) {
          const auto victim = std::next(active.begin(), std::int64_t(below(active.size())));
          shares.end(victim->first);
          active.erase(victim);
          continue;
        }
        std::uint32_t id = 0;
        while (active.count(id)) ++id;
        Route route;
        for (std::uint64_t k = 0, m = 1 + below(4); k < m; ++k)
          route.push_back(
              {std::uint32_t(below(instance.capacities.size())), seed % 3 ? 1.0 : double(1 + below(8)) / 4});
        shares.begin(id, shares.add_route(route));
        active[id] = route;
      }
      shares.settle();
      const auto expected = naive_rates(instance.capacities, active);
      std::vector<double> load(instance.capacities.size());
      for (const auto& flow : active) {
        const std::uint32_t id = flow.first;
        CAPTURE(id);
        CHECK(shares.rate(id).value == doctest::Approx(expected.at(id)).epsilon(1e-9));
        for (const LinkUse& use : flow.second) load[use.link] += use.weight * shares.rate(id).value;
      }
      for (std::size_t link = 0; link < load.size(); ++link)
        CHECK(load[link] <= instance.capacities[link] * (1 + 1e-9));
      // everybody is held back somewhere: by a full link on which nobody is faster
      for (const auto& [id, route] : active) {
        bool is_bound = false;
        for (const LinkUse& use : route) {
          bool is_fastest = load[use.link] >= instance.capacities[use.link] * (1 - 1e-9);
          for (const auto& [other, other_route] : active)
            for (const LinkUse& u : other_route)
              if (u.link == use.link) is_fastest &= shares.rate(other).value <= shares.rate(id).value * (1 + 1e-9);
          is_bound |= is_fastest;
        }
        CHECK(is_bound);
      }
    }
  }
}

TEST_CASE("fair share: what is not connected with a change keeps its rate and is not reported") {
  FairShare shares({100.0_GBps, 100.0_GBps, 1000.0_GBps});
  const auto left = shares.add_route(Route{{.link = 0}, {.link = 2}}),
             right = shares.add_route(Route{{.link = 1}, {.link = 2}});
  for (std::uint32_t flow = 0; flow < 4; ++flow) shares.begin(flow, flow < 2 ? left : right);
  CHECK(shares.settle().size() == 4);
  shares.end(0);  // link 2 is wide enough for all: it connects nobody
  const auto changed = shares.settle();
  REQUIRE(changed.size() == 1);
  CHECK(changed[0] == 1);
  CHECK(shares.rate(1) == 100.0_GBps);
  CHECK(shares.rate(2) == 50.0_GBps);
}
