// Numbers into narrower fields, and work that threads count together.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <regex>
#include <string>
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

TEST_CASE("outside of device kernels a cast to a narrower integer is a narrow<T>()") {
  // literals, constants, enumerations, booleans, bytes and what a range, std::min, std::clamp or a mask has bounded
  // lose nothing
  const std::regex unchecked(
      R"((?:^|[^\w:<])(?:int|(?:std::|static_cast<std::)u?int(?:8|16|32)_t>?|static_cast<int>)\()"
      R"((?!\)|[0-9]|[kK][A-Z]|\w*(?:Kind|StreamId|Category|Activity|Class|Phase|Work)::|(?:\w+\.)?stream\)|)"
      R"(event\.target\)|event_\.correlation|\*found|bytes\[|text\[|point\.value|raw_at|random_bits|__extension__|x\), |n\) for |)"
      R"(std::(?:min|clamp)<|[^(]*(?:\(\))? & k|m\.\w+ > 0|has_many|ntohs|std::bit_width|const \w+&|)"
      R"((?:\w+\.)*(?:fit|layout|method|precision|scales_embedding|has_\w+)\b|job\.recipe\(\)\.checkpointing))");
  const std::filesystem::path root = std::filesystem::path(GPUPLAN_TEST_DIR).parent_path();
  int num_lines = 0;
  for (const char* folder : {"planner", "sim", "search", "models", "cluster", "rows", "run", "base", "cli", "report",
                             "validate", "ecosystem", "mend", "diagnose", "fit", "calibrate", "serve", "execute"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".cpp" && extension != ".h") continue;
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line); ++num_lines)
        CHECK_MESSAGE(!(line.find("int") != std::string::npos && line.find("// checked") == std::string::npos &&
                        std::regex_search(line, unchecked)),
                      entry.path().string(), ": ", line);
    }
  CHECK(num_lines > 10'000);
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
