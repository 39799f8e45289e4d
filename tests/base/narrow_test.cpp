// Numbers into narrower fields, and work that threads count together.
#include <cstdint>
#include <limits>
#include <thread>

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/narrow.h"
#include "base/work_count.h"

using namespace gpuplan;

TEST_CASE("a number that fits its field is kept, one that does not is our bug and names the place") {
  CHECK(narrow<std::uint16_t>(65'535) == 65'535);
  CHECK(narrow<std::int8_t>(std::int64_t(-128)) == -128);
  CHECK_THROWS_WITH_AS(narrow<std::uint16_t>(65'536), doctest::Contains("narrow_test.cpp"), BugError);
  CHECK_THROWS_AS(narrow<std::uint32_t>(std::int64_t(-1)), BugError);
  CHECK_THROWS_AS(narrow<std::int32_t>(std::numeric_limits<std::uint64_t>::max()), BugError);
}

TEST_CASE("work of all threads is counted") {
  const WorkCounts before = work_counts();
  {
    std::jthread other([] {
      for (int i = 0; i < 1000; ++i) count_work(Work::Instructions, 3);
    });
    for (int i = 0; i < 1000; ++i) count_work(Work::Instructions, 4);
  }
  const WorkCounts now = work_counts();
  CHECK(now[std::size_t(Work::Instructions)] - before[std::size_t(Work::Instructions)] == 7000);
  CHECK(now[std::size_t(Work::Events)] == before[std::size_t(Work::Events)]);
}
