// The page as text: complete, escaped, offline, not too large. tests/browser opens it.
#include <algorithm>
#include <array>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "golden/simulation_fixture.h"
#include "report/html/one_file.h"
#include "report/html/reports.h"
#include "report/json/answers_json.h"

namespace gpuplan {
namespace {

using nlohmann::json;

std::size_t num_of(const std::string& text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

json page_data(const std::string& page) {
  const std::string begin = R"(<script type="application/json" id="data">)";
  const std::size_t at = page.find(begin) + begin.size();
  return json::parse(page.substr(at, page.find("</script>", at) - at));
}

json data_of(const std::string& page) { return page_data(page).at("timeline"); }

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

TEST_CASE("the page fetches nothing, and begins as gpuplan knows its pages") {
  const std::string page = simulation_report(testing::small_simulation());
  CHECK(page.starts_with(kPageBegins));
  for (const char* part :
       {" src=", "<link rel=\"stylesheet\"", "@import", "url(", "https://", "XMLHttpRequest", "type=\"module\" src"})
    CHECK_MESSAGE(num_of(page, part) == 0, part);
  CHECK(num_of(page, "default-src 'none'") == 1);
  CHECK(num_of(page, "connect-src") == 0);
  CHECK(num_of(page, R"(name="gpuplan-engine" content="none")") == 1);
}

TEST_CASE("the page holds the answer of --json, the drawing and the command") {
  SimulationAnswer answer = testing::small_simulation();
  answer.topology_svg = "<svg id=\"machine\"></svg>";
  const json data = page_data(simulation_report(answer));
  CHECK(data.at("kind") == "simulate");
  CHECK(data.at("answer") == json(simulation_json(answer)));
  CHECK(data.at("topology") == answer.topology_svg);
  CHECK(data.at("command") == "gpuplan simulate --model tiny --gpus 2xT4");
  CHECK(data.at("thinned") == "");
  double sum = 0;
  for (const json& share : data.at("shares")) sum += share.at("share").get<double>();
  CHECK(sum == doctest::Approx(1));
}

TEST_CASE("modules are joined behind what they import, each once") {
  const std::array files{PageFile{"a.js", "import {c} from './c.js';\nimport {b} from './b.js';\nb(c);\n"},
                         PageFile{"b.js", "import {c} from './c.js';\nexport function b(x) { return x + c; }\n"},
                         PageFile{"c.js", "export const c = 1;\nexport async function d() {}\nexport class E {}\n"}};
  CHECK(joined_modules(files, "a.js") ==
        "const module_c = (() => {\nconst c = 1;\nasync function d() {}\nclass E {}\n\nreturn {c, d, E};\n})();\n"
        "const module_b = (() => {\nconst {c} = module_c;\nfunction b(x) { return x + c; }\n\nreturn {b};\n})();\n"
        "const module_a = (() => {\nconst {c} = module_c;\nconst {b} = module_b;\nb(c);\n\nreturn {};\n})();\n");
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
}

TEST_CASE("memory of the fullest GPU is there by category, and adds up to the curve") {
  const json data = data_of(simulation_report(testing::small_simulation()));
  REQUIRE(data.at("ranks")[0].contains("by_category"));
  CHECK_FALSE(data.at("ranks")[1].contains("by_category"));
  const json &parts = data.at("ranks")[0].at("by_category"), &curve = data.at("ranks")[0].at("memory");
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].at("name") == "weights");
  CHECK(parts[1].at("place") == int(Category::Activations));
  for (std::size_t i = 0; i < curve.size() / 2; ++i)
    CHECK(parts[0].at("bytes")[i].get<std::int64_t>() + parts[1].at("bytes")[i].get<std::int64_t>() ==
          curve[2 * i + 1].get<std::int64_t>());
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

TEST_CASE("GPUs left out are counted") {
  CHECK(num_of(simulation_report(testing::small_simulation(), {.max_ranks = 1}),
               "1 of 2 simulated GPUs are not on this page") == 1);
}

TEST_CASE("the page carries every module that it needs, and the style sheet as the file says it") {
  const std::string page = simulation_report(testing::small_simulation());
  const std::string folder = GPUPLAN_TEST_DIR "/../web/page/";
  CHECK(num_of(page, read_file(folder + "style.css")) == 1);
  for (const char* name : {"offline", "step_view", "plan_view", "fit_view", "diagnosis_view", "dom", "format"})
    CHECK_MESSAGE(num_of(page, fmt::format("const module_{} = ", name)) == 1, name);
  for (const char* name : {"main", "ask", "form", "worker"})
    CHECK_MESSAGE(num_of(page, fmt::format("const module_{} = ", name)) == 0, name);
}

}  // namespace gpuplan
