#include "planner/layer_parts.h"

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

#include <doctest/doctest.h>

namespace gpuplan {
namespace {

TEST_CASE("ranks that share a layer's tensors are those of tensor parallelism alone") {
  // tp 2, cp 2 of dp_shard 4, pp 3: 24 ranks. Neighbours share tensors; ranks of a sequence have whole ones
  const Mesh mesh = {{Axis::Tp, 2}, {Axis::Cp, 2}, {Axis::DpShard, 4}, {Axis::Pp, 3}};
  const LayerParts parts = layer_parts(mesh);
  CHECK(mesh.world() == 24);
  CHECK(parts.ways == 2);
  CHECK(parts.stride == 1);
  CHECK(parts.of(6) == 0);
  CHECK(parts.of(23) == 1);
  CHECK(layer_parts({{Axis::Cp, 2}, {Axis::DpShard, 4}, {Axis::Pp, 2}}).ways == 1);
  CHECK(layer_parts({}).of(5) == 0);
}

/// The first name of an axis in a file, "" where there is none.
std::string named_axis(const std::filesystem::path& file) {
  static const std::regex kNamed(R"(\bAxis::(?!None|Count)\w+)");
  std::ifstream in(file);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  std::smatch match;
  return std::regex_search(text, match, kNamed) ? match.str() : "";
}

TEST_CASE("readers of a step program name no axis: memory, time, simulator, executor") {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(GPUPLAN_TEST_DIR).parent_path();
  int read = 0;
  const auto look = [&](const fs::path& file) {
    CAPTURE(file.string());
    CHECK(named_axis(file).empty());
    ++read;
  };
  for (const char* folder : {"run", "sim"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (entry.is_regular_file()) look(entry.path());
  for (const char* file : {"memory.cpp", "peaks.cpp", "program_walk.h", "step_time.cpp", "timed_program.cpp",
                           "instruction_cost.cpp", "comm_model.cpp", "verify.cpp"})
    look(root / "planner" / file);
  CHECK(read > 60);
}

}  // namespace
}  // namespace gpuplan
