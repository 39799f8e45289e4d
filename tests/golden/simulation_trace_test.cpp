// The trace read back: what Perfetto demands of it, and what it must not lose.
#include <algorithm>
#include <map>
#include <set>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "golden/simulation_fixture.h"
#include "report/trace/chrome_trace.h"

namespace gpuplan {
namespace {

using nlohmann::json;

std::vector<json> events_of(const SimulationAnswer& answer, const std::string& phase) {
  std::vector<json> out;
  const json trace = json::parse(chrome_trace(answer));
  for (const json& event : trace.at("traceEvents"))
    if (event.at("ph") == phase) out.push_back(event);
  return out;
}

/// The slice on the event's track that encloses its moment, as a viewer binds arrows.
bool is_in_a_slice(const json& event, const std::vector<json>& slices) {
  return std::any_of(slices.begin(), slices.end(), [&](const json& s) {
    return s.at("pid") == event.at("pid") && s.at("tid") == event.at("tid") && s.at("ts") <= event.at("ts") &&
           event.at("ts").get<double>() < s.at("ts").get<double>() + s.at("dur").get<double>();
  });
}

}  // namespace

TEST_CASE("every span is a complete event of its GPU and stream") {
  const SimulationAnswer answer = testing::small_simulation();
  const auto slices = events_of(answer, "X");
  REQUIRE(slices.size() == answer.plan.simulation.spans.size());
  double busy = 0;
  for (const json& s : slices)
    if (s.at("pid") == 1 && s.at("tid") == int(StreamId::Compute)) busy += s.at("dur").get<double>();
  CHECK(busy == doctest::Approx(50'000));  // 10 + 5 + 25 + 10 ms
  CHECK(slices.front().at("name") == "forward layer 0");
  CHECK(slices.front().at("args").at("begins_after") == "start");
}

TEST_CASE("spans of a track do not overlap and events are in order of time") {
  const SimulationAnswer answer = testing::small_simulation();
  double last = 0;
  std::map<std::pair<int, int>, double> ends;
  const json trace = json::parse(chrome_trace(answer));
  for (const json& event : trace.at("traceEvents")) {
    if (!event.contains("ts")) continue;
    CHECK(event.at("ts").get<double>() >= last);
    last = event.at("ts").get<double>();
    if (event.at("ph") != "X") continue;
    double& end = ends[{event.at("pid").get<int>(), event.at("tid").get<int>()}];
    CHECK(end <= last);
    end = last + event.at("dur").get<double>();
  }
}

TEST_CASE("times keep every picosecond") {
  SimulationAnswer answer = testing::small_simulation();
  answer.plan.simulation.spans[0].begin = {1};
  answer.plan.simulation.spans[0].end = {12'345'678'901'234'567};
  const std::string text = chrome_trace(answer);
  CHECK(text.find(R"("ts":0.000001,"dur":12345678901.234566)") != std::string::npos);
}

TEST_CASE("every message is an arrow with an id of its own, between slices") {
  const SimulationAnswer answer = testing::small_simulation();
  const auto slices = events_of(answer, "X"), starts = events_of(answer, "s"), ends = events_of(answer, "f");
  REQUIRE(starts.size() == 2);
  REQUIRE(ends.size() == 2);
  std::set<int> ids;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto end =
        std::find_if(ends.begin(), ends.end(), [&](const json& f) { return f.at("id") == starts[i].at("id"); });
    REQUIRE(end != ends.end());
    CHECK(end->at("bp") == "e");
    CHECK(end->at("ts") >= starts[i].at("ts"));
    CHECK(is_in_a_slice(starts[i], slices));
    CHECK(is_in_a_slice(*end, slices));
    ids.insert(starts[i].at("id").get<int>());
  }
  CHECK(ids.size() == starts.size());
}

TEST_CASE("GPUs and streams are named, memory is counted") {
  const SimulationAnswer answer = testing::small_simulation();
  std::set<std::string> names;
  for (const json& event : events_of(answer, "M"))
    if (event.at("args").contains("name")) names.insert(event.at("args").at("name").get<std::string>());
  CHECK(names == std::set<std::string>{"GPU 0 (stage 0)", "GPU 1 (stage 1)", "compute", "send", "receive"});
  const auto counters = events_of(answer, "C");
  CHECK(counters.size() == 8);
  CHECK(counters[2].at("args").at("bytes") == 9'000'000'000);
}

TEST_CASE("the trace says what it is of; equal simulations give equal bytes; names cannot break it") {
  const SimulationAnswer answer = testing::hostile_simulation();
  const std::string text = chrome_trace(answer);
  CHECK(text == chrome_trace(testing::hostile_simulation()));
  const json meta = json::parse(text).at("otherData");
  CHECK(meta.at("strategy") == "mp");
  CHECK(meta.at("network") == "analytic");
  CHECK(meta.at("seed") == 0);
  CHECK(meta.at("model") == answer.request.model.name);
}

TEST_CASE("a trace without spans is still a trace") {
  SimulationAnswer answer = testing::small_simulation();
  answer.plan.simulation = {};
  CHECK(json::parse(chrome_trace(answer)).at("traceEvents").empty());
}

}  // namespace gpuplan
