#include "run/hazards.h"

#include <algorithm>
#include <random>

#include <doctest/doctest.h>

using namespace gpuplan;

namespace {

constexpr std::array kStreams{StreamId::Compute, StreamId::Gather, StreamId::Reduce};

struct Step {
  StreamId stream{};
  std::vector<MemoryAccess> accesses;
  std::vector<std::uint32_t> waits;
};

std::vector<Step> random_steps(std::uint32_t seed) {
  static const std::array<std::byte, 64> memory{};
  std::mt19937 draw(seed);
  std::vector<Step> steps(150);
  for (Step& s : steps) {
    s.stream = kStreams[draw() % kStreams.size()];
    for (std::size_t k = draw() % 4; k > 0; --k) {
      const std::size_t begin = draw() % 60, size = 1 + draw() % 4;
      s.accesses.push_back({memory.data() + begin, memory.data() + begin + size, draw() % 3 == 0});
    }
  }
  return steps;
}

bool conflict(const Step& a, const Step& b) {
  for (const MemoryAccess& x : a.accesses)
    for (const MemoryAccess& y : b.accesses)
      if ((x.is_write || y.is_write) && x.begin < y.end && y.begin < x.end) return true;
  return false;
}

/// [later][earlier]: whether streams and waits alone put one before the other.
std::vector<std::vector<bool>> order_of(const std::vector<Step>& steps) {
  std::vector<std::vector<bool>> before(steps.size(), std::vector<bool>(steps.size()));
  const auto follow = [&](std::size_t later, std::size_t earlier) {
    before[later][earlier] = true;
    for (std::size_t i = 0; i < earlier; ++i) before[later][i] = before[later][i] || before[earlier][i];
  };
  for (std::size_t t = 0; t < steps.size(); ++t) {
    for (std::size_t e = 0; e < t; ++e)
      if (steps[e].stream == steps[t].stream) follow(t, e);
    for (const std::uint32_t w : steps[t].waits) follow(t, w);
  }
  return before;
}

}  // namespace

TEST_CASE(
    "hazards: two tasks that touch the same memory, one writing, are always ordered; a naive search over all pairs "
    "agrees") {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    auto steps = random_steps(seed);
    Hazards hazards;
    for (std::uint32_t t = 0; t < steps.size(); ++t)
      steps[t].waits = hazards.enter(t, steps[t].stream, steps[t].accesses);
    const auto before = order_of(steps);
    for (std::size_t t = 0; t < steps.size(); ++t)
      for (std::size_t e = 0; e < t; ++e)
        if (conflict(steps[t], steps[e]) && !before[t][e]) FAIL("task " << t << " does not wait for task " << e);
  }
}

TEST_CASE(
    "hazards: a wait is for a conflict of another stream, one per stream at most, and never for what the stream has "
    "waited for") {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    const auto steps = random_steps(seed);
    Hazards hazards;
    std::array<std::array<std::int64_t, kNumStreams>, kNumStreams> waited{};
    for (auto& row : waited) row.fill(-1);
    for (std::uint32_t t = 0; t < steps.size(); ++t) {
      std::array<int, kNumStreams> per_stream{};
      for (const std::uint32_t w : hazards.enter(t, steps[t].stream, steps[t].accesses)) {
        const auto mine = std::size_t(steps[t].stream), other = std::size_t(steps[w].stream);
        CHECK(w < t);
        CHECK(mine != other);
        CHECK(conflict(steps[t], steps[w]));
        CHECK(++per_stream[other] == 1);
        CHECK(std::int64_t(w) > waited[mine][other]);
        waited[mine][other] = w;
      }
    }
  }
}

TEST_CASE("hazards: readers do not wait for readers, and neighbours do not touch") {
  const std::array<std::byte, 8> m{};
  const auto access = [&](int begin, int end, bool is_write) {
    return std::vector<MemoryAccess>{{m.data() + begin, m.data() + end, is_write}};
  };
  Hazards hazards;
  CHECK(hazards.enter(0, StreamId::Compute, access(0, 4, false)).empty());
  CHECK(hazards.enter(1, StreamId::Gather, access(0, 4, false)).empty());
  CHECK(hazards.enter(2, StreamId::Gather, access(4, 8, true)).empty());
  CHECK(hazards.enter(3, StreamId::Reduce, access(3, 5, true)) == std::vector<std::uint32_t>{0, 2});
}
