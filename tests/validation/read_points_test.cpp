#include "validate/read_points.h"

#include <algorithm>
#include <random>

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/files.h"
#include "validation/point_lines.h"

using namespace gpuplan;
using namespace gpuplan::test;
using nlohmann::json;

namespace {

std::string error_of(const std::string& text) {
  try {
    parse_points(text, "points.jsonl");
  } catch (const InputError& error) { return error.what(); }
  return "";
}

}  // namespace

TEST_CASE("a memory point keeps its figures, its facts and the place of its line") {
  const auto points =
      parse_points("\n" + memory_point({{"peak_alt_gib", {{"nvidia-smi", 25.5}}}}).dump() + "\n", "points.jsonl");
  REQUIRE(points.size() == 1);
  const Point& p = points[0];
  CHECK(p.kind == PointKind::Memory);
  CHECK(p.where == "points.jsonl:2");
  CHECK(p.source == "s");
  CHECK(p.skipped.empty());
  CHECK(p.memory.gib == 20.0);
  CHECK(p.memory.capacity_gib == 79.2);
  REQUIRE(p.memory.others_gib.size() == 1);
  CHECK(p.memory.others_gib[0].second == 25.5);
  CHECK(p.lora.targets == std::vector<std::string>{"q_proj", "v_proj"});
  CHECK(p.framework == "hf-trainer");
}

TEST_CASE("a speed point keeps its target, its family, its link and its shard group") {
  const Point p = read_one(speed_point({{"norm", {{"degrees", {{"tp", 2}}}}}}));
  CHECK(p.kind == PointKind::Speed);
  CHECK(p.speed.metric == "tokens_per_s_per_gpu");
  CHECK(p.speed.value == 20000);
  CHECK(p.strategy == "fsdp");
  CHECK(p.shard_size == 8);
  REQUIRE(p.link);
  CHECK(p.link->kind == "nvswitch");
  REQUIRE(p.degrees.size() == 1);
  CHECK(p.degrees[0].second == 2);
}

TEST_CASE("points that do not count say why") {
  CHECK(read_one(memory_point({{"in_scope", false}})).skipped == "out of scope");
  CHECK(read_one(memory_point({{"fully_specified", false}})).skipped == "not fully specified");
  CHECK(read_one(memory_point({{"use_for_scoring", false}})).skipped == "not meant for scoring");
  CHECK(read_one(speed_point({{"spec_level", "partial"}})).skipped == "not fully specified");
  CHECK(read_one(speed_point({{"trust", "low"}})).skipped == "trust is low");
  CHECK(read_one(speed_point({{"spec_level", "full_inferred"}})).skipped.empty());
}

TEST_CASE("a bad line is named with file, line and what would be right") {
  const std::string good = memory_point().dump() + "\n";
  CHECK(error_of(good + "{\"id\": }").starts_with("points.jsonl:2:8: not valid JSON"));
  CHECK(error_of(good + "[1]").starts_with("points.jsonl:2: expected an object"));
  CHECK(error_of(good + "{\"id\": \"x\", \"method\": \"full\"}")
            .starts_with("points.jsonl:2: memory_metric: is missing, and so is target"));
  CHECK(error_of(good + good).starts_with("points.jsonl:2: the id 'm1' comes twice"));
  CHECK(error_of("\n \n").starts_with("points.jsonl: has no points"));
  CHECK(error_of(memory_point({{"micro_batch_size", 0}}).dump()).starts_with("points.jsonl:1: micro_batch_size: "));
  CHECK(error_of(memory_point({{"peak_memory_gib", -1}}).dump())
            .starts_with("points.jsonl:1: peak_memory_gib: -1 is not an amount"));
  CHECK(error_of(memory_point({{"outcome", "fine"}}).dump())
            .starts_with("points.jsonl:1: outcome: 'fine' is neither ok nor oom"));
  CHECK(error_of(memory_point({{"gpu_mem_gib", 9007199254740992}}).dump())
            .starts_with("points.jsonl:1: gpu_mem_gib: 9007199254740992 is too large"));
  CHECK(error_of(speed_point({{"target", {{"value", "fast"}}}}).dump()).starts_with("points.jsonl:1: target.value: "));
  CHECK(error_of("{\"id\": \"" + std::string(kLargestPoint, 'x') + "\"}")
            .starts_with("points.jsonl:1: the line is too long"));
}

TEST_CASE("fields that are not ours are left alone") {
  CHECK(read_one(memory_point({{"weather", {{"sky", "blue"}}}, {"note", 7}})).id == "m1");
}

TEST_CASE("damaged lines are refused or read") {
  std::mt19937 random(20261121);
  const std::string whole = memory_point().dump() + "\n" + speed_point().dump();
  int num_refused = 0;
  for (int i = 0; i < 2000; ++i) {
    CAPTURE(i);
    std::string text = whole;
    for (int n = 0; n < 3; ++n) text[random() % text.size()] = char(random() % 256);
    try {
      parse_points(text, "test");
    } catch (const InputError&) { ++num_refused; }
  }
  CHECK(num_refused > 1000);
}

TEST_CASE("odd values in any field are refused or read") {
  const std::vector<json> odd{nullptr,   true, -1, 0, 7, 1e300, 1.5, "text", json::array({1}), json::object({{"a", 1}}),
                              UINT64_MAX};
  for (const json& whole : {memory_point(), speed_point()})
    for (const auto& [key, value] : whole.items())
      for (const json& other : odd) {
        json point = whole;
        point[key] = other;
        CAPTURE(point.dump());
        try {
          parse_points(point.dump(), "test");
        } catch (const InputError&) {}
      }
}

TEST_CASE("every shipped point is read") {
  for (const char* name : {"memory.jsonl", "speed.jsonl"}) {
    const auto file = data_dir() / "validation" / name;
    const std::string text = read_file(file);
    CHECK(read_points(file).size() == std::size_t(std::count(text.begin(), text.end(), '\n')));
  }
}
