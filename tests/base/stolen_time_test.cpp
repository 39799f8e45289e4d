#include "base/stolen_time.h"

#include <doctest/doctest.h>

#include "scratch_folder.h"

namespace gpuplan {
namespace {

std::optional<ProcessorTimes> times_of(const std::string& text) {
  const test::ScratchFolder folder;
  return read_processor_times(folder.write("stat", text));
}

}  // namespace

TEST_CASE("stolen time is a share of what was wanted, idle time left out") {
  const auto begin = times_of("cpu  100 10 20 9000 5 1 4 15 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
  const auto end = times_of("cpu  130 10 40 9900 5 1 4 65 0 0\n");
  REQUIRE(begin);
  REQUIRE(end);
  CHECK(begin->wanted == 150);
  CHECK(stolen_share(begin, end) == doctest::Approx(0.5));  // 50 of 100 ticks
  CHECK(describe_stolen(0.5).find("50 %") != std::string::npos);
  CHECK(describe_stolen(0.019).empty());
}

TEST_CASE("where the kernel does not tell, nothing was stolen") {
  CHECK_FALSE(times_of(""));
  CHECK_FALSE(times_of("cpu  1 2 3 4\n"));
  CHECK_FALSE(times_of("intr 1 2 3 4 5 6 7 8 9\n"));
  CHECK_FALSE(read_processor_times("/nowhere/stat"));
  CHECK(stolen_share({}, ProcessorTimes{10, 5}) == 0);
  CHECK(stolen_share(ProcessorTimes{10, 5}, ProcessorTimes{10, 5}) == 0);
  CHECK(read_processor_times());  // of this machine
}

}  // namespace gpuplan
