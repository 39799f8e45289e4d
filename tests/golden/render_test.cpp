#include <algorithm>
#include <cstdlib>
#include <sstream>

#include <doctest/doctest.h>

#include "base/names.h"
#include "base/surroundings.h"
#include "cli/program.h"
#include "report/text/amounts.h"
#include "report/text/answers_text.h"
#include "report/text/notes.h"
#include "report/text/screen.h"
#include "report/text/table.h"
#include "report/text/text.h"

namespace gpuplan {

TEST_CASE("columns are as wide as their content, numbers to the right, and lines end in no spaces") {
  Table table{.columns = {{"name"}, {"size", Align::Right}, {"note"}}, .rows = {}};
  table.add({{"a"}, {"1"}, {""}});
  table.add({{"longer"}, {"1,000"}, {"x"}});
  CHECK(render(table, {}) ==
        "name     size  note\n"
        "a           1\n"
        "longer  1,000  x\n");
  CHECK(width_of(table) == 19);
}

TEST_CASE("both ends of a range have one unit") {
  CHECK(range_text(Seconds{42.9 * 3600}, Seconds{66 * 3600}) == "1.79 d to 2.75 d");
  CHECK(range_text(Seconds{3600}, Seconds{7200}) == "1.00 h to 2.00 h");
  CHECK(range_text(Seconds{10}, Seconds{10}) == "10.0 s");
}

TEST_CASE("what may fit is shown without cache that gives way, what does not fit as if there were room") {
  constexpr std::int64_t kGiB = std::int64_t(1) << 30;
  StrategyEstimate e;
  e.tiers.usable = Bytes{23 * kGiB}, e.tiers.needed = Bytes{22 * kGiB}, e.tiers.process = Bytes{34 * kGiB};
  e.fit = Fit::Tight;
  CHECK(shown_memory(e) == Bytes{23 * kGiB});
  e.tiers.needed = Bytes{24 * kGiB};
  CHECK(shown_memory(e) == Bytes{24 * kGiB});
  e.fit = Fit::Unlikely;
  CHECK(shown_memory(e) == Bytes{34 * kGiB});
}

TEST_CASE("a narrow screen loses the least important columns first, and never an indispensable one") {
  Table table{.columns = {{"aaaa"}, {"bbbb", Align::Left, 1}, {"cccc", Align::Left, 2}},
              .rows = {{{"1"}, {"2"}, {"3"}}}};
  CHECK(fit_to(table, 16).columns.size() == 3);  // 4 + 2 + 4 + 2 + 4
  CHECK(fit_to(table, 15).columns.back().title == "bbbb");
  CHECK(fit_to(table, 2).columns.size() == 1);
}

TEST_CASE(
    "a table that is wider than the screen takes several lines for its long cells, and cuts no word and no number") {
  Table table{.columns = {{"  name"}, {"size", Align::Right}, {"what it is for"}}, .rows = {}};
  table.add({{"  one two three"}, {"1,000"}, {"cards without peer-to-peer"}});
  table.add({{"  one"}, {"1"}, {"all"}});
  CHECK(render(table, {.width = 30}) ==
        "  name      size  what it is\n"
        "                  for\n"
        "  one two  1,000  cards\n"
        "  three           without\n"
        "                  peer-to-peer\n"
        "  one          1  all\n");
  CHECK(render(table, {.width = 60}) ==
        "  name            size  what it is for\n"
        "  one two three  1,000  cards without peer-to-peer\n"
        "  one                1  all\n");
  CHECK(render(table, {.width = 30, .format = TableFormat::Csv}).find("cards without peer-to-peer") !=
        std::string::npos);
}

TEST_CASE("a column in which no row says anything is left out") {
  const Table table{.columns = {{"name"}, {"cost"}, {"note"}}, .rows = {{{"a"}, {""}, {"x"}}, {{"b"}, {""}, {""}}}};
  CHECK(without_empty_columns(table).columns.size() == 2);
}

TEST_CASE("names in Markdown are no HTML, no links, no other cells and no lines of their own") {
  Table table{.columns = {{"name"}}, .rows = {}};
  table.add({{"<img src=x onerror=alert(1)> a|b [c](http://d)\n# e & f"}});
  CHECK(markdown_table(table) ==
        "| name |\n| --- |\n"
        "| &lt;img src=x onerror=alert(1)> a\\|b \\[c](http://d) # e &amp; f |\n");
  CHECK(markdown_list({"<b>\n- x"}) == "- &lt;b> - x\n");
}

TEST_CASE("widths count characters, not bytes") {
  CHECK(width_of("★ µ×") == 4);
  CHECK(pad_left("µs", 4) == "  µs");
}

TEST_CASE("long text is wrapped at words, and a word longer than a line is cut") {
  CHECK(wrap("one two three", 8, "- ", "  ") == "- one\n  two\n  three\n");
  CHECK(wrap("0123456789", 6, "", "  ") == "012345\n  6789\n");
  CHECK(wrap("one|two|three", 9, "", "  ") == "one|two|\n  three\n");
  CHECK(wrap("", 10, "- ", "  ") == "- \n");
  CHECK(wrap("it needs 20 GiB, 9 %", 11, "", "  ") ==
        "it needs\n  20 GiB,\n  9 %\n");  // a number and its unit stay together
}

TEST_CASE("a bar is filled in eighths, and an overflow ends in an arrow") {
  CHECK(bar(0, 4) == "░░░░");
  CHECK(bar(0.5, 4) == "██░░");
  CHECK(bar(0.53125, 4) == "██▏░");  // 17 of 32 eighths
  CHECK(bar(1, 4) == "████");
  CHECK(bar(1.01, 4) == "███▶");
  for (int i = 0; i <= 100; ++i) CHECK(width_of(bar(i / 100.0, 7)) == 7);
}

TEST_CASE("ASCII drawings are as wide as the others") {
  CHECK(to_ascii("██▌░ ★ 2 × µ") == "###. > 2 x u");
  CHECK(width_of(to_ascii(bar(0.3, 12))) == 12);
}

TEST_CASE("colour is used only where the screen has it") {
  CHECK(paint("yes", Ink::Good, {}) == "yes");
  CHECK(paint("yes", Ink::Good, {.has_colour = true}) == "\x1b[32myes\x1b[0m");
  CHECK(paint("yes", Ink::Plain, {.has_colour = true}) == "yes");
}

TEST_CASE("a file is not a terminal: no colour and a fixed width") {
  Surroundings nothing;
  const WithSurroundings with(nothing);
  const Screen screen = screen_of(StandardStream::Out);
  CHECK(!screen.has_colour);
  CHECK(screen.width == kPipeWidth);
}

TEST_CASE("short durations have one unit") {
  CHECK(format_short_duration(Seconds{0.312}) == "312 ms");
  CHECK(format_short_duration(Seconds{200}) == "3.33 min");  // 200 / 60
  CHECK(format_short_duration(Seconds{18720}) == "5.20 h");  // 18720 / 3600
  CHECK(format_short_duration(Seconds{5e5}) == "5.79 d");    // 5e5 / 86400
}

TEST_CASE("durations of one sentence have one unit, unless they are far apart") {
  CHECK(format_duration_beside(Seconds{100}, Seconds{83.7}) == "1.40 min");  // beside 1.67 min
  CHECK(format_duration_beside(Seconds{100}, Seconds{72.1}) == "1.20 min");
  CHECK(format_duration_beside(Seconds{0.9}, Seconds{1.2}) == "1200 ms");
  CHECK(format_duration_beside(Seconds{100}, Seconds{0.5}) == "500 ms");
}

TEST_CASE("notes are wrapped to the terminal, under their own indent") {
  CHECK(in_width("gpuplan: one two three\n  nearest: four five\n", 16) ==
        "gpuplan: one two\n  three\n  nearest: four\n  five\n");
  CHECK(in_width("gpuplan: short", 80) == "gpuplan: short");
}

TEST_CASE("rates have three digits and the unit that fits") {
  CHECK(format_rate(BytesPerSec{768e9}) == "768 GB/s");
  CHECK(format_rate(BytesPerSec{3.35e12}) == "3.35 TB/s");
  CHECK(format_rate(FlopsPerSec{154.8e12}) == "155 TFLOP/s");
  CHECK(format_rate(FlopsPerSec{2.25e15}) == "2.25 PFLOP/s");
}

TEST_CASE("no line of any answer is wider than its screen") {
  const std::vector<std::string> estimate{"estimate", "--model",       "llama3-8b", "--full",
                                          "--gpus",   "2x4090,2x3090", "--explain"};
  for (const std::vector<std::string>& args :
       {estimate, {"models"}, {"gpus"}, {"gpus", "h100-sxm"}, {"models", "llama-3-8b"}, {"estimate", "--help"}})
    for (const int width : {80, 100, 160}) {
      std::ostringstream out, err;
      run(args, out, err, {.width = width});
      std::istringstream lines(out.str());
      for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(width_of(line) <= width, line);
    }
}

TEST_CASE("command, answer and prompt share a terminal of 24 lines") {
  const std::vector<std::string> commands{"estimate --model llama3-8b --lora r=8 --gpus 4xA6000",
                                          "estimate --model llama2-70b --full --gpus 2x3090",
                                          "estimate --model llama3-8b --qlora --gpus 2x4090,2x3090",
                                          "plan --model llama3-8b --rows 50000 --tokens-per-row 800 --gpus 4x4090",
                                          "plan --model qwen2.5-7b --lora --rows 5000",
                                          "plan --model llama-3.2-1b --lora --gpus 8xH100 --max context",
                                          "simulate --model llama3-8b --full --gpus 8xA100",
                                          "simulate --model llama3-8b --full --gpus 2x3090",
                                          "simulate --model llama-3.2-1b --lora --gpus 2x4090,2x3090"};
  for (const std::string& command : commands)
    for (const int width : {80, 100}) {
      std::ostringstream out, err;
      const int code = run(split(command, ' '), out, err, {.width = width});
      const std::string text = out.str();
      CAPTURE(command);
      CAPTURE(width);
      CHECK(code <= 1);
      CHECK(std::count(text.begin(), text.end(), '\n') <= 21);
      CHECK(text.find("--explain: ") != std::string::npos);
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(width_of(line) <= width, line);
    }
}

TEST_CASE("where nothing does what was asked, plan keeps to one screen, and what would do is on it") {
  for (const int width : {80, 100}) {
    std::ostringstream out, err;
    const std::string file = GPUPLAN_TEST_DIR "/golden/inputs/openrlhf.sh";
    CHECK(run({"plan", "--from", file, "--budget", "0.1"}, out, err, {.width = width}) == 1);
    const std::string text = out.str();
    CAPTURE(text);
    CHECK(std::count(text.begin(), text.end(), '\n') <= 21);
    CHECK(text.find("What would do") != std::string::npos);
    CHECK(text.find("--explain: ") != std::string::npos);
  }
}

TEST_CASE(
    "fix: a short diff shares a terminal of 24 lines with its command; behind a long one its verdict stands again") {
  const std::string inputs = GPUPLAN_TEST_DIR "/golden/inputs/";
  for (const auto& [question, is_short] :
       {std::pair("train.sh --gpus 2x4090", true), std::pair("sft.yaml --gpus 2x4090", true),
        std::pair("axolotl.yaml --gpus 2x3090", false)})
    for (const int width : {80, 100}) {
      CAPTURE(question);
      CAPTURE(width);
      std::ostringstream out, err;
      REQUIRE(run(split("fix " + inputs + question, ' '), out, err, {.width = width}) == 0);
      const std::string text = out.str();
      const auto lines = std::ranges::count(text, '\n');
      if (is_short) CHECK(lines <= 21);
      if (!is_short) CHECK(err.str().find("changed, it fits; --write") != std::string::npos);
      std::istringstream prose(text.substr(0, text.find("\n\n")));
      for (std::string line; std::getline(prose, line);) CHECK_MESSAGE(width_of(line) <= width, line);
      if (text.find("\n--- ") != std::string::npos) CHECK(err.str().find("--write") != std::string::npos);
    }
}

TEST_CASE("--brief is the verdict in one line") {
  for (const char* gpus : {"4xA6000", "1xT4"}) {
    std::ostringstream out, err;
    run(split(std::string("estimate --model llama3-8b --full --as-given --brief --gpus ") + gpus, ' '), out, err, {});
    CHECK(std::ranges::count(out.str(), '\n') == 1);
    CHECK(out.str().find(gpus == std::string("1xT4") ? "Nothing fits" : " fits; ") != std::string::npos);
  }
}

}  // namespace gpuplan
