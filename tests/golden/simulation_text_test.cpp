// Text and JSON of a simulation: chart, tables, axis.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include "base/names.h"
#include "golden/simulation_fixture.h"
#include "report/json/answers_json.h"
#include "report/text/answers_text.h"
#include "report/text/gantt.h"
#include "report/text/simulation_facts.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

/// 4 columns of indent, 11 of labels ("critical path" less its smaller indent), 1, the chart, 6 of shares.
constexpr int kAround = 4 + 11 + 1 + 6;

Screen narrow() { return {.width = kAround + 20}; }

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

std::size_t num_lines_with(const std::string& text, std::string_view part) {
  std::size_t n = 0;
  for (const std::string& line : split(text, '\n')) n += contains(line, part) ? 1 : 0;
  return n;
}

}  // namespace

TEST_CASE("a chart of 100 ms in 20 columns: 5 ms each") {
  Screen ascii = narrow();
  ascii.has_unicode = false;
  CHECK(gantt_text(testing::small_simulation().plan.simulation, {}, ascii) ==
        "  GPU 0 (stage 0)\n"
        "    compute     ffff..........rrBBBB  50 %\n"
        "    send        ....x...............   5 %\n"
        "    receive     .............x......   5 %\n"
        "  GPU 1 (stage 1)\n"
        "    compute     .....ffHBBBBB.OO....  50 %\n"
        "    send        .............x......   5 %\n"
        "    receive     ....x...............   5 %\n"
        "  critical path ffffxffHBBBBBxrrBBBB\n"
        "                |0        |50 ms   |100 ms\n"
        "  f forward   r recompute   B backward\n"
        "  H head and loss   O optimizer\n"
        "  x send/receive\n");
}

TEST_CASE(
    "what a span waits is not drawn: launches at the end of a computation, the message at the begin of a receive") {
  Simulation simulation = testing::small_simulation().plan.simulation;
  simulation.spans[0].active = {10'000'000'000};  // of 20 ms of forward
  simulation.spans[7].begin = {25'000'000'000};   // receive from 25 ms on, the message is under way 65-70
  Screen ascii = narrow();
  ascii.has_unicode = false;
  const std::string text = gantt_text(simulation, {}, ascii);
  CHECK(contains(text, "compute     ff............rrBBBB  40 %"));
  CHECK(contains(text, "receive     .............x......   5 %"));
}

TEST_CASE("glyphs of a terminal and of ASCII take the same columns") {
  Screen ascii = narrow();
  ascii.has_unicode = false;
  const Simulation simulation = testing::small_simulation().plan.simulation;
  const auto plain = split(gantt_text(simulation, {}, ascii), '\n'),
             unicode = split(gantt_text(simulation, {}, narrow()), '\n');
  REQUIRE(plain.size() == unicode.size());
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(width_of(plain[i]) == width_of(unicode[i]));
}

TEST_CASE("colours are for terminals only") {
  Screen terminal = narrow();
  terminal.has_colour = true;
  const Simulation simulation = testing::small_simulation().plan.simulation;
  CHECK(contains(gantt_text(simulation, {}, terminal), "\x1b[34m████\x1b[0m"));
  CHECK(!contains(gantt_text(simulation, {}, narrow()), "\x1b"));
}

TEST_CASE("zooming in shows only what runs in the window, with shares of it") {
  const GanttView view{.begin = {20'000'000'000}, .end = SimTime{40'000'000'000}};
  Screen ascii = narrow();
  ascii.has_unicode = false;
  const std::string text = gantt_text(testing::small_simulation().plan.simulation, view, ascii);
  CHECK(contains(text, "compute     .....ffffffffffHHHHH  75 %"));  // GPU 1: 25-40 of 20-40 ms
  CHECK(num_lines_with(text, "compute") == 1);                      // GPU 0 computes nothing there
  CHECK(contains(text, "|20 ms"));
}

TEST_CASE("a window outside of the step, and a simulation without spans, draw nothing") {
  Simulation simulation = testing::small_simulation().plan.simulation;
  CHECK(gantt_text(simulation, {.begin = {200'000'000'000}}, {}).empty());
  simulation.spans.clear();
  simulation.critical_path.clear();
  CHECK(gantt_text(simulation, {}, {}).empty());
}

TEST_CASE("GPUs that are not drawn are counted") {
  const std::string text = gantt_text(testing::small_simulation().plan.simulation, {.max_ranks = 1}, {});
  CHECK(!contains(text, "GPU 1 (stage 1)"));
  CHECK(contains(text, "1 of 2 simulated GPUs are not drawn"));
}

TEST_CASE("marks on an axis are round, within it, and not more than asked for") {
  const auto labels = [](std::int64_t begin, std::int64_t end, int most) {
    std::string out;
    for (const TimeMark& mark : time_marks({begin}, {end}, most)) out += mark.label + ";";
    return out;
  };
  CHECK(labels(0, 1'000'000'000'000, 6) == "0;200 ms;400 ms;600 ms;800 ms;1000 ms;");
  CHECK(labels(0, 4'500'000'000'000, 5) == "0;1 s;2 s;3 s;4 s;");
  CHECK(labels(1'230'000, 1'780'000, 3) == "1400 ns;1600 ns;");
  CHECK(labels(0, 0, 4) == "0;");
  for (std::int64_t end = 1; end < 1'000'000'000'000'000; end = end * 3 + 1)
    for (int most = 1; most < 12; ++most) CHECK(time_marks({0}, {end}, most).size() <= std::size_t(most));
}

TEST_CASE("the parts of the step add up to it") {
  double sum = 0;
  for (const StepShare& s : step_shares(testing::small_simulation().plan.simulation)) sum += s.share;
  CHECK(sum == doctest::Approx(1));
}

TEST_CASE("the whole text names figures, parts, remedies, neighbours; a plan that does not fit is said to") {
  SimulationAnswer answer = testing::small_simulation();
  const std::string text = simulation_text(answer, {}, {});
  for (const char* part : {"1,500 tokens/s, 750 per GPU", "HFU", "31.2 %", "bubble", "NVLink would give 1.1x",
                           "$0.50 on 2 GPUs", "Where the step goes", "a step made by hand", "ddp", "closed formulas"})
    CHECK_MESSAGE(contains(text, part), part);
  CHECK(contains(scaling_text(answer.scaling, {}), " 75 %"));  // 750 per GPU of 1000
  CHECK(!contains(text, "It does not fit"));
  answer.plan.estimate.fit = Fit::No;
  answer.plan.estimate.why_not_yes = "needs 3 GiB more";
  CHECK(contains(simulation_text(answer, {}, {}), "It does not fit: needs 3 GiB more"));
}

TEST_CASE("no line of the text is wider than the screen") {
  const SimulationAnswer answer = testing::small_simulation();
  for (const int width : {60, 80, 100, 160})
    for (const std::string& line : split(simulation_text(answer, {}, {.width = width}), '\n'))
      CHECK_MESSAGE(width_of(line) <= width, line);
}

TEST_CASE("JSON has every figure in base units") {
  const auto json = simulation_json(testing::small_simulation());
  CHECK(json.at("step_seconds") == doctest::Approx(0.1));
  CHECK(json.at("gpu_utilization").at("resident") == doctest::Approx(0.6));
  CHECK(json.at("exposed_communication_seconds") == doctest::Approx(0.01));
  CHECK(json.at("peak_bytes") == 14'000'000'000);
  CHECK(json.at("cost_usd") == 0.5);
  CHECK(json.at("critical_path").size() == 2);
  CHECK(json.at("critical_path")[0].at("remedy").is_null());
  CHECK(json.at("critical_path")[1].at("activity") == "send/receive");
  CHECK(json.at("streams")[1].at("busy_seconds").at("compute") == doctest::Approx(0.05));
  CHECK(json.at("network") == "analytic");
  CHECK(json.at("scaling")[1].at("efficiency") == doctest::Approx(0.75));
  for (const char* key : {"epoch_seconds", "tokens_per_second_per_gpu", "mfu", "hfu", "folded", "seed", "num_events",
                          "links", "comparison", "assumptions", "strategy", "fits"})
    CHECK_MESSAGE(json.contains(key), key);
}

TEST_CASE("without a price the cost is null") {
  SimulationAnswer answer = testing::small_simulation();
  answer.plan.cost_usd.reset();
  CHECK(simulation_json(answer).at("cost_usd").is_null());
}

TEST_CASE("of many GPUs that are alike one is drawn, and every one that differs") {
  Simulation s = testing::small_simulation().plan.simulation;
  SimulatedRank usual = s.ranks[0];
  s.ranks.clear();
  for (std::uint32_t r = 0; r < 64; ++r) {
    usual.name = fmt::format("GPU {}", r);
    usual.alike = r == 13 ? 13 : 0;
    s.ranks.push_back(usual);
  }
  const std::vector<ShownRank> shown = shown_ranks(s, 8);
  REQUIRE(shown.size() == 2);
  CHECK((shown[0].rank == 0 && shown[0].others == 62));
  CHECK((shown[1].rank == 13 && shown[1].others == 0));
  CHECK(num_not_shown(s, 8) == 0);
  s.spans[1].rank = 13;
  const std::string chart = gantt_text(s, {}, narrow());
  CHECK(contains(chart, "GPU 0, like 62 more"));
  CHECK(contains(chart, "GPU 13\n"));
  for (SimulatedRank& rank : s.ranks) rank.alike = 0;  // none differs: the first ones
  CHECK(shown_ranks(s, 8).size() == 8);
  CHECK(num_not_shown(s, 8) == 56);
}

}  // namespace gpuplan
