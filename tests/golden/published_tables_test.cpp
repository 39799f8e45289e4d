// Tables that trainers publish (data/validation/tables.json): each figure lies within the range that `estimate` states,
// with the trainer's defaults of the table's day and the settings that the table states.
#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/json_file.h"
#include "golden/command_line.h"
#include "models/stack.h"

namespace gpuplan::test {
namespace {

using Json = nlohmann::json;

/// Half a unit of the last digit that stands for something: 0.05 of "18.9", 50 of "1200".
double rounding_of(const std::string& printed) {
  const std::size_t point = printed.find('.');
  if (point != std::string::npos) return 0.5 * std::pow(10.0, -double(printed.size() - point - 1));
  return 0.5 * std::pow(10.0, double(printed.size() - printed.find_last_not_of('0') - 1));
}

/// The trainer's versions at a day, or those of transformers' Trainer.
std::string versions_at_day(const std::string& flags, const std::string& day) {
  const std::string word = "--framework ";
  const std::size_t begin = flags.find(word) + word.size();
  return versions_text(versions_at(day, flags.substr(begin, flags.find(' ', begin) - begin)));
}

/// The one strategy of the answer.
Json ask(const Json& table, const Json& row) {
  std::string flags = table["flags"].get<std::string>() + " " + row["flags"].get<std::string>();
  if (table["figure"] == "context") flags += " --seq-len " + row["published"].get<std::string>();
  if (flags.find("--strategy") == std::string::npos) flags += " --strategy single";
  const Ran ran = run_line(fmt::format("estimate {} --versions {} --as-given --json", flags,
                                       versions_at_day(flags, table["date"].get<std::string>())));
  CAPTURE(ran.err);
  REQUIRE(ran.code <= 1);
  return Json::parse(ran.out)["strategies"][0];
}

struct Range {
  double low{}, high{};
};

/// The range around the figure that the table prints, in its unit. The counters of torch are three, and some tables do
/// not say which they show: then it reaches from allocated to reserved bytes. What the allocator reserved while the
/// model was loaded it keeps.
Range range_of(const Json& answer, const Json& table) {
  const double peak = answer["peak_bytes"], unit = table["unit"] == "GB" ? 1e9 : std::pow(2.0, 30);
  const std::string figure = table["figure"];
  const auto bytes = [&](const char* key) { return answer[key].get<double>() / unit; };
  const double beside = bytes("peak_bytes") - bytes("reserved_bytes");
  const double loading = answer["peaks"]["load"]["gpu_bytes"].get<double>() / unit - beside;
  const double least = figure == "process"    ? bytes("peak_bytes")
                       : figure == "reserved" ? std::max(bytes("reserved_bytes"), loading)
                                              : bytes("tensors_bytes");
  const double most = figure == "torch" ? bytes("reserved_bytes") : least;
  return {least * answer["peak_bytes_low"].get<double>() / peak, most * answer["peak_bytes_high"].get<double>() / peak};
}

/// The longest context that fits is where `estimate` is not sure that it does, whatever it says of the host.
bool is_inside(const Range& range, const Json& answer, const Json& table, const std::string& printed) {
  if (table["figure"] == "context") return answer["probability"] >= 0.2 && answer["probability"] < 0.8;
  const double published = std::stod(printed), rounding = rounding_of(printed);
  return published + rounding >= range.low && published - rounding <= range.high;
}

}  // namespace

TEST_CASE("what trainers publish in tables lies within the stated ranges, with their defaults of that day") {
  const Json tables = read_json_file(data_dir() / "validation" / "tables.json");
  int outside = 0;
  for (const Json& table : tables["tables"])
    for (const Json& row : table["rows"]) {
      CAPTURE(table["name"].get<std::string>());
      CAPTURE(row.dump());
      const Json answer = ask(table, row);
      const Range range = range_of(answer, table);
      CAPTURE(range.low);
      CAPTURE(range.high);
      const bool is_explained = row.contains("outside");
      outside += is_explained;
      CHECK(is_inside(range, answer, table, row["published"]) != is_explained);
    }
  CHECK(outside <= 3);
}

}  // namespace gpuplan::test
