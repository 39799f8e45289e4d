// The JSON contract of `validate`, and the pages and data that it writes: they must be what the program writes today.
// GPUPLAN_UPDATE_GOLDEN=1 rewrites docs/accuracy.md and data/validation/accuracy.json; estimates show the new ranges
// from the next run on, so rewrite twice.
#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "cli/program.h"
#include "golden/command_line.h"
#include "planner/accuracy.h"
#include "schemas/schemas.h"
#include "scratch_folder.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kRoot = fs::path(GPUPLAN_TEST_DIR).parent_path();

std::string ran(const std::vector<std::string>& words) {
  std::ostringstream out, err;
  std::istringstream in;
  REQUIRE(run(words, out, err, {}, in) == 0);
  return out.str();
}

std::string open_points(const char* name) { return (kRoot / "data" / "validation" / name).string(); }

/// A measurement is one line.
std::size_t num_lines(const fs::path& file) {
  const std::string text = read_file(file);
  return std::size_t(std::count(text.begin(), text.end(), '\n'));
}

/// What `flag` writes for all open points, against the file in the tree.
void check_written(const std::string& flag, const fs::path& kept) {
  const test::ScratchFolder scratch;
  const std::string file = (scratch.path() / "written").string();
  ran({"validate", open_points("memory.jsonl"), open_points("speed.jsonl"), flag, file});
  if (test::is_updating()) write_file_atomically(kept, read_file(file));
  CHECK_MESSAGE(read_file(kept) == read_file(file), kept.string(), " is not what validate ", flag,
                " writes: run the tests once with GPUPLAN_UPDATE_GOLDEN=1");
}

}  // namespace

TEST_CASE("docs/accuracy.md is what validate --report writes") {
  check_written("--report", kRoot / "docs" / "accuracy.md");
}

TEST_CASE("the figures of the README are those of docs/accuracy.md") {
  const fs::path readme = kRoot / "README.md";
  std::string page = read_file(readme);
  const std::string report = read_file(kRoot / "docs" / "accuracy.md");
  for (const std::string start : {"| as printed |", "| allocated |", "| process |", "| \\|ln("}) {
    const auto line_at = [&](const std::string& text) {
      const auto from = text.find("\n" + start);
      REQUIRE(from != std::string::npos);
      return std::pair(from + 1, text.find('\n', from + 1) - from - 1);
    };
    const auto [there, length] = line_at(report);
    const auto [here, old_length] = line_at(page);
    const std::string wanted = report.substr(there, length);
    if (test::is_updating()) page.replace(here, old_length, wanted);
    CHECK(page.compare(here, length, wanted) == 0);
  }
  if (test::is_updating()) write_file_atomically(readme, page);
}

TEST_CASE("data/validation/accuracy.json is what validate --save-ranges writes") {
  check_written("--save-ranges", kRoot / "data" / "validation" / "accuracy.json");
}

TEST_CASE("validate --json has every field of the contract for every point") {
  const json answer =
      json::parse(ran({"validate", open_points("memory.jsonl"), open_points("speed.jsonl"), "--json", "--picks"}));
  CHECK(answer["points"].size() == num_lines(open_points("memory.jsonl")) + num_lines(open_points("speed.jsonl")));
  for (const json& point : answer["points"]) {
    CAPTURE(point["id"].get<std::string>());
    const std::string status = point["status"];
    CHECK((status == "scored" || status == "unsupported" || status == "skipped"));
    CHECK(point["reason"].is_null() == (status == "scored"));
    for (const char* key :
         {"metric", "measured", "predicted", "low", "high", "error", "verdict", "predicted_process_gib"})
      CHECK(point.contains(key));
    const bool ran_out = point["outcome"] == "oom";
    if (status != "scored") continue;
    CHECK((point["verdict"] == "fits" || point["verdict"] == "tight" || point["verdict"] == "oom"));
    CHECK(point["predicted_process_gib"].is_number());
    CHECK(point["error"].is_null() == ran_out);
    if (ran_out) continue;
    const double error = point["predicted"].get<double>() / point["measured"].get<double>() - 1;
    CHECK(point["error"].get<double>() == doctest::Approx(error));
    CHECK(point["low"].get<double>() <= point["predicted"].get<double>());
    CHECK(point["high"].get<double>() >= point["predicted"].get<double>());
  }
}

TEST_CASE("validate lists points of which none counts one by one") {
  const std::string text = ran({"validate", open_points("preference.jsonl")});
  for (const char* words : {"none of which counts", "swift-packing-dpo", "nvidia-smi"})
    CHECK_MESSAGE(text.find(words) != std::string::npos, text);
  CHECK(ran({"validate", open_points("memory.jsonl")}).find("none of which counts") == std::string::npos);
}

TEST_CASE("validate --json obeys its schema, whichever points there are") {
  const test::ScratchFolder scratch;
  const std::string memory = open_points("memory.jsonl"), speed = open_points("speed.jsonl"),
                    points = read_file(memory),
                    one = scratch.write("one.jsonl", points.substr(0, points.find('\n') + 1)).string();
  const std::vector<std::vector<std::string>> questions{
      {memory, speed, "--picks"}, {memory, speed}, {memory, "--picks"}, {memory}, {speed}, {one}};
  for (std::vector<std::string> words : questions) {
    words.insert(words.begin(), {"validate", "--json"});
    CAPTURE(fmt::format("{}", fmt::join(words, " ")));
    CHECK(test::schema_problem("validate", json::parse(ran(words))) == "");
  }
}

TEST_CASE("the schema of validate lists every heading that a range may have, and no other") {
  std::set<std::string> known;
  for (const Figure figure : {Figure::Tensors, Figure::Reserved, Figure::Process, Figure::StepTime}) {
    for (const std::string_view kind : kModelKinds) known.insert(fmt::format("{}.{}", to_string(figure), kind));
    known.insert(fmt::format("{}.{}", to_string(figure), kUnlike));
  }
  for (const Figure figure : {Figure::Tensors, Figure::Reserved, Figure::Process, Figure::StepTime})
    for (const Method method : {Method::Full, Method::Lora, Method::Qlora})
      for (int bits = 0; bits < 16; ++bits) {
        const MeasuredKind kind{.method = method,
                                .is_pretraining = (bits & 1) != 0,
                                .is_sharded = (bits & 2) != 0,
                                .has_several_gpus = (bits & 4) != 0,
                                .offloads = (bits & 8) != 0};
        for (const std::string& cell : cells_of(figure, kind))
          known.insert(std::string(to_string(figure)) + "." + cell);
      }
  std::set<std::string> listed;
  const std::string begin = "summary.ranges.";
  for (const std::string& property : test::schema_properties("validate"))
    if (property.starts_with(begin) && std::count(property.begin(), property.end(), '.') == 3)
      listed.insert(property.substr(begin.size()));
  CHECK(listed == known);
}

TEST_CASE("validate --json sums up what the points say") {
  const json answer = json::parse(ran({"validate", open_points("memory.jsonl"), "--json"}));
  const json& summary = answer["summary"];
  std::size_t scored = 0, unsupported = 0;
  for (const json& point : answer["points"]) {
    scored += point["status"] == "scored";
    unsupported += point["status"] == "unsupported";
  }
  CHECK(summary["memory"]["represented"] == scored);
  CHECK(summary["memory"]["scoreable"] == scored + unsupported);
  for (const char* part : {"own", "allocated", "process"})
    for (const char* key :
         {"points", "sources", "median", "p90", "worst", "median_signed", "pooled_median", "pooled_p90"})
      CHECK_MESSAGE(summary["memory"][part].contains(key), part, " ", key);
  for (const char* key : {"ok_fits", "ok_oom", "oom_oom", "oom_fits"})
    CHECK(summary["memory"]["verdicts"].contains(key));
  CHECK(summary["empirical_constants"]["count"] == summary["empirical_constants"]["constants"].size());
  CHECK(summary["empirical_constants"]["count"] > 0);
  CHECK(summary["ranges"].contains("process_bytes"));
  CHECK(summary["cross_validated"]["memory"]["own"]["points"] == summary["memory"]["own"]["points"]);
  CHECK(summary["memory"]["by_heading"].contains("mixture of experts"));
  CHECK(!summary.contains("picks"));
}

TEST_CASE("estimate states a range around memory and step time that holds the figure") {
  const json answer =
      json::parse(ran({"estimate", "--model", "tinyllama-1.1b", "--lora", "--gpus", "2xA6000", "--json"}));
  for (const json& s : answer["strategies"]) {
    CAPTURE(s["name"].get<std::string>());
    if (!s["not_applicable"].is_null()) continue;
    CHECK(s["peak_bytes_low"] <= s["peak_bytes"]);
    CHECK(s["peak_bytes_high"] >= s["peak_bytes"]);
    CHECK(s["step_seconds_low"] < s["step_seconds"]);
    CHECK(s["step_seconds_high"] > s["step_seconds"]);
  }
}

}  // namespace gpuplan
