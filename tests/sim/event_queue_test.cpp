#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "sim/event_queue.h"

using namespace gpuplan;

TEST_CASE("event queue: among equal times, what was pushed first comes first, however runs are cut") {
  // Against a stable sort; few and many distinct times, pushes at the present moment among the pops.
  for (const std::int64_t num_times : {1, 3, 50, 1000, 1'000'000'000}) {
    CAPTURE(num_times);
    std::mt19937_64 random(7);
    EventQueue queue;
    std::vector<std::pair<std::int64_t, std::uint32_t>> pending, expected, popped;
    std::uint32_t next = 0;
    std::int64_t now = 0;
    const auto push = [&](std::int64_t time) {
      queue.push({.time = {time}, .kind = std::uint8_t(next % 3), .index = next, .stamp = next + 1});
      pending.push_back({time, next++});
    };
    for (int i = 0; i < 20'000; ++i) {
      if (i < 300 || random() % 2 == 0) push(now + std::int64_t(random() % std::uint64_t(num_times)));
      if (random() % 50 == 0) push(now);
      if (i < 300 || queue.empty() || random() % 2 == 0) continue;
      const auto least = std::min_element(pending.begin(), pending.end());  // (time, sequence)
      CHECK(queue.next_time().ps == least->first);
      const SimEvent event = queue.pop();
      REQUIRE(std::pair(event.time.ps, event.index) == *least);
      REQUIRE(event.kind == event.index % 3);
      REQUIRE(event.stamp == event.index + 1);
      now = event.time.ps;
      pending.erase(least);
    }
    CHECK(queue.empty() == pending.empty());
  }
}
