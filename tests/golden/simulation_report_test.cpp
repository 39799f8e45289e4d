// The page as text: complete, escaped, offline, not too large. tests/browser opens it.
#include <algorithm>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "golden/simulation_fixture.h"
#include "report/html/html.h"
#include "report/html/reports.h"

namespace gpuplan {
namespace {

using nlohmann::json;

std::size_t num_of(const std::string& text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

json data_of(const std::string& page) {
  const std::string begin = R"(<script type="application/json" id="data">)";
  const std::size_t at = page.find(begin) + begin.size();
  return json::parse(page.substr(at, page.find("</script>", at) - at));
}

/// Duration of each activity over all tracks of the data, in ns.
std::vector<std::int64_t> durations(const json& data) {
  std::vector<std::int64_t> out(std::size_t(kNumActivities), 0);
  for (const json& track : data.at("tracks"))
    for (std::size_t i = 0; i < track.at("spans").size(); i += std::size_t(kSpanFields))
      out[track.at("spans")[i + 2].get<std::size_t>()] += track.at("spans")[i + 1].get<std::int64_t>();
  return out;
}

}  // namespace

TEST_CASE("text of a page is escaped between tags, in attributes and in scripts") {
  CHECK(escape_html("a<b>&\"'") == "a&lt;b&gt;&amp;&quot;&#39;");
  CHECK(escape_script_json(R"({"a":"</script><!--"})") == R"({"a":"\u003c/script>\u003c!--"})");
}

TEST_CASE("names cannot leave their place on the page") {
  const std::string page = simulation_report(testing::hostile_simulation());
  CHECK(num_of(page, "<script") == 2);
  CHECK(num_of(page, "</script>") == 2);
  CHECK(num_of(page, "<b>&") == 0);
  CHECK(num_of(page, "<!--") == 0);
  CHECK(data_of(page).at("ranks")[0].at("name") == testing::hostile_simulation().plan.simulation.ranks[0].name);
}

TEST_CASE("the page fetches nothing") {
  const std::string page = simulation_report(testing::small_simulation());
  for (const char* part : {" src=", "href=", "@import", "url(", "http://", "https://", "fetch(", "XMLHttpRequest"})
    CHECK_MESSAGE(num_of(page, part) == 0, part);
  CHECK(num_of(page, "default-src 'none'") == 1);
}

TEST_CASE("the page has every section, the figures and the command") {
  SimulationAnswer answer = testing::small_simulation();
  answer.topology_svg = "<svg id=\"machine\"></svg>";
  const std::string page = simulation_report(answer);
  for (const char* title :
       {"What the step waits for", "Where the step goes", "Timeline of one step", "Memory over the step",
        "Streams in use", "The machine", "Compared", "Scaling", "Figures", "The question", "Assumptions"})
    CHECK_MESSAGE(num_of(page, "<h2>" + std::string(title) + "</h2>") == 1, title);
  for (const char* part : {"<svg id=\"machine\">", "NVLink would give 1.1x",
                           "gpuplan simulate --model tiny --gpus 2xT4", "a step made by hand", "1,500"})
    CHECK_MESSAGE(num_of(page, part) >= 1, part);
  CHECK(num_of(page, "class=\"warning\"") == 0);
}

TEST_CASE("a simulation without spans, memory or neighbours has no empty sections") {
  SimulationAnswer answer = testing::small_simulation();
  answer.plan.simulation = {};
  answer.comparison.clear();
  answer.scaling.clear();
  const std::string page = simulation_report(answer);
  for (const char* title : {"Timeline", "Memory over", "Scaling", "Compared", "Streams", "waits for"})
    CHECK_MESSAGE(num_of(page, std::string("<h2>") + title) == 0, title);
  CHECK(num_of(page, "<canvas") == 0);
}

TEST_CASE("spans on the page are those of the simulation, with causes and the critical path") {
  const json data = data_of(simulation_report(testing::small_simulation()));
  REQUIRE(data.at("tracks").size() == 6);  // compute, send and receive of two GPUs
  CHECK(durations(data)[std::size_t(Activity::Backward)] == 45'000'000);
  CHECK(durations(data)[std::size_t(Activity::SendRecv)] == 20'000'000);
  // Second GPU's receive: after 20 ms, for 5 ms, critical and a receive (1 + 4), 8 MB, caused by the first GPU's send,
  // the fourth on the page.
  CHECK(data.at("tracks")[5].at("spans") ==
        json{20'000'000, 5'000'000, int(Activity::SendRecv), 2, 0, 5, 1, 8'000'000, 0, 3});
  CHECK(data.at("messages") == json{3, 10, 9, 4});
  CHECK(data.at("capacity") == 24'000'000'000);
}

TEST_CASE("big runs are thinned below 2 MB, keep their length, and the page says so") {
  const SimulationAnswer answer = testing::large_simulation(200'000);
  const TimelineData data = timeline_data(answer.plan.simulation, 2);
  CHECK(data.num_drawn <= 40'000);
  CHECK(data.num_columns >= 4'000);
  std::int64_t num_merged = 0;
  for (const auto& track : data.json.at("tracks"))
    for (std::size_t i = 6; i < track.at("spans").size(); i += std::size_t(kSpanFields))
      num_merged += track.at("spans")[i].get<std::int64_t>();
  CHECK(num_merged == 200'000);
  const std::string page = simulation_report(answer);
  CHECK(page.size() < 2'000'000);
  CHECK(num_of(page, "200,000 spans are drawn as") == 1);
  CHECK(num_of(simulation_report(testing::small_simulation()), "are merged") == 0);
}

TEST_CASE("a thinned memory curve keeps its highest point") {
  SimulationAnswer answer = testing::small_simulation();
  auto& memory = answer.plan.simulation.ranks[0].memory;
  memory.clear();
  for (std::int64_t i = 0; i < 50'000; ++i) memory.push_back({{i * 1000}, {i == 31'415 ? 999 : i % 100}});
  const TimelineData data = timeline_data(answer.plan.simulation, 2, {.max_points = 1000});
  const auto& curve = data.json.at("ranks")[0].at("memory");
  CHECK(curve.size() <= 2 * 1000);
  std::int64_t highest = 0, last = 0;
  for (std::size_t i = 0; i < curve.size(); i += 2) {
    CHECK(curve[i].get<std::int64_t>() >= last);
    last = curve[i].get<std::int64_t>();
    highest = std::max(highest, curve[i + 1].get<std::int64_t>());
  }
  CHECK(highest == 999);
}

TEST_CASE("a plan that does not fit carries a warning; GPUs left out are counted") {
  CHECK(num_of(simulation_report(testing::hostile_simulation()), "class=\"warning\"") == 1);
  CHECK(num_of(simulation_report(testing::small_simulation(), {.max_ranks = 1}),
               "1 of 2 simulated GPUs are not on this page") == 1);
}

TEST_CASE("the page carries page.js and page.css as the files say them") {
  const std::string page = simulation_report(testing::small_simulation());
  for (const char* file : {"page.js", "page.css"})
    CHECK_MESSAGE(num_of(page, read_file(std::string(GPUPLAN_TEST_DIR "/../report/html/") + file)) == 1, file);
}

}  // namespace gpuplan
