// Help on one screen, colours, tables alone, and plain words in the place of flags.
#include <algorithm>
#include <sstream>
#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/names.h"
#include "cli/commands.h"
#include "cli/program.h"
#include "environment_variable.h"
#include "golden/command_line.h"
#include "report/text/screen.h"
#include "report/text/text.h"

namespace gpuplan {

using test::run_line;

TEST_CASE("help: -h of the program and of every command is at most 20 lines of 80 columns, --help is longer") {
  std::vector<std::string> names{""};
  for (const Command& command : commands()) names.push_back(std::string(command.name) + " ");
  for (const std::string& name : names) {
    CAPTURE(name);
    const test::Ran brief = run_line(name + "-h"), whole = run_line(name + "--help");
    CHECK(brief.code == 0);
    CHECK(std::ranges::count(brief.out, '\n') <= 20);
    CHECK(brief.out.size() < whole.out.size());
    CHECK(brief.out.find("--help") != std::string::npos);
    for (const std::string& line : split(brief.out, '\n')) {
      CAPTURE(line);
      CHECK(width_of(line) <= 80);
    }
    CHECK(run_line("help " + name).out == whole.out);
  }
}

TEST_CASE("80 columns: no line of an answer is wider, and the first screen has room for command and prompt") {
  const std::string inputs = GPUPLAN_TEST_DIR "/golden/inputs/", gpus = " --gpus 4xA6000";
  const std::vector<std::string> lists{"machines",
                                       "machines a100",
                                       "models",
                                       "gpus",
                                       "gpus 3090",
                                       "profiles",
                                       "doctor",
                                       "validate --by method --worst 10",
                                       "plan --gpus 2x3090 --largest",
                                       "topology --gpus 4xA6000 --from 0 --to 3",
                                       "--help",
                                       "nosuchcommand",
                                       "estimate llama3-8b 4xA6000 --explain",
                                       "simulate --model llama3-8b --lora --explain" + gpus};
  const std::string of_70b = "estimate --model llama-3.1-70b --gpus 8xH100 --framework ";
  const std::vector<std::string> screens{
      "estimate --model llama3-8b --lora" + gpus,
      "estimate --model qwen2.5-7b --method dpo --lora" + gpus,
      "estimate --model qwen2.5-7b --method grpo --gpus 8xH100",
      of_70b + "megatron",
      of_70b + "nemo",
      "simulate --model llama3-8b --lora --strategy fsdp" + gpus,
      "simulate --model llama3-8b --lora --compare ddp,fsdp --scaling 1,2" + gpus,
      "plan --model llama3-8b --lora" + gpus,
      "plan --model llama3-8b --qlora --max context --gpus 2x3090",
      "simulate --model llama3-8b --full --gpus 1x3090",
      "simulate --model llama-3.1-8b --full --micro-batch 8 --gpus 2x3090 --as-given",
      "fix " + inputs + "sft.yaml --gpus 2x4090",
      "fix " + inputs + "axolotl.yaml --gpus 2x3090",
      "diagnose --model llama3-8b --lora --strategy fsdp --measured 2.5s" + gpus};
  const auto check = [](const std::string& line, long most_lines, int width) {
    CAPTURE(line);
    CAPTURE(width);
    std::ostringstream out, err;
    std::istringstream in;
    run(test::words_of(line), out, err, {.width = width}, in);
    const std::string text = out.str() + err.str();
    CHECK(!text.empty());
    CHECK(std::ranges::count(text, '\n') <= most_lines);
    std::istringstream lines(text);
    for (std::string one; std::getline(lines, one);) {
      CAPTURE(one);
      CHECK(width_of(one) <= width);
    }
  };
  for (const std::string& line : lists) check(line, 1000, 80);
  for (const std::string& line : screens)
    for (const int width : {80, 100}) check(line, 21, width);
}

TEST_CASE("help: the flags that -h lists are flags of the command") {
  for (const Command& command : commands())
    for (const std::string& flag : split(command.first_flags, ' ')) {
      CAPTURE(command.name);
      CAPTURE(flag);
      if (!flag.empty()) CHECK(run_line(fmt::format("{} -h", command.name)).out.find(flag) != std::string::npos);
    }
}

TEST_CASE("version: -V is --version") { CHECK(run_line("-V").out == run_line("--version").out); }

TEST_CASE("colour: --color decides, whatever the answer is shown on") {
  const std::string question = "estimate --model llama3-8b --lora --gpus 4xA6000";
  const std::string plain = run_line(question).out, painted = run_line(question + " --color always").out;
  CHECK(plain.find('\x1b') == std::string::npos);
  CHECK(painted.find('\x1b') != std::string::npos);
  CHECK(run_line(question + " --color never").out == plain);
  CHECK(run_line(question + " --color=auto").out == plain);
  CHECK(run_line(question + " --color sometimes").code == 2);
}

TEST_CASE("colour: FORCE_COLOR paints into pipes, NO_COLOR wins") {
  const test::Variable force("FORCE_COLOR", "1"), term("TERM", "xterm");
  {
    const test::Variable no("NO_COLOR", nullptr);
    CHECK(screen_of(StandardStream::Out).has_colour);
  }
  const test::Variable no("NO_COLOR", "1");
  CHECK_FALSE(screen_of(StandardStream::Out).has_colour);
}

TEST_CASE("format: the tables of an answer alone, whole, as CSV and as Markdown") {
  const std::string csv = run_line("gpus --format csv").out;
  CHECK(csv.starts_with("GPU,architecture,memory,TFLOP/s,measured,bandwidth,link,per hour\n"));
  CHECK(csv.find("\"PCIe 4.0 x16, no p2p\"") != std::string::npos);  // a cell with a comma
  for (const char* question : {"estimate --model llama3-8b --lora --gpus 4xA6000 --explain", "machines", "models qwen3",
                               "simulate --model llama3-8b --lora --gpus 4xA6000 --compare ddp,fsdp"}) {
    CAPTURE(question);
    const test::Ran ran = run_line(fmt::format("{} --format md", question));
    CHECK(ran.code == 0);
    REQUIRE(!ran.out.empty());
    for (const std::string& line : split(ran.out, '\n')) {
      CAPTURE(line);
      CHECK((line.empty() || (line.starts_with("|") && line.ends_with("|"))));
    }
    for (const char c : ran.out) CHECK((static_cast<unsigned char>(c) >= ' ' || c == '\n'));
  }
  CHECK(run_line("gpus --format xml").code == 2);
  const std::vector<std::string> rows =
      split(run_line("estimate --model llama3-8b --lora --gpus 4xA6000 --format csv").out, '\n');
  REQUIRE(rows.size() > 4);
  CHECK(rows[0].starts_with("strategy,recommended,verdict,probability,memory_gib,"));
  CHECK(rows[2].starts_with("ddp,yes,yes,"));  // no star, no unit, no per cent
  for (const char* sign : {"GiB", "$", "★", "%"}) CHECK(rows[2].find(sign) == std::string::npos);
}

TEST_CASE("batch: --global-batch is --grad-accum, by the micro batch and the ranks that have sequences of their own") {
  const std::string lora = "estimate --model llama3-8b --lora r=8 --as-given ";
  for (const auto& [global, accumulated] :
       {std::pair<std::string, std::string>{"--gpus 4xA6000 --micro-batch 2 --global-batch 64", "--grad-accum 8"},
        {"--gpus 4xA6000 --micro-batch 2 --strategy single --global-batch 64", "--grad-accum 32"},
        {"--gpus 8xH100 --framework megatron --strategy ddp --tp 2 --sp --global-batch 32", "--grad-accum 8"}}) {
    CAPTURE(global);
    const std::string instead = global.substr(0, global.find("--global-batch")) + accumulated;
    CHECK(run_line(lora + global + " --json").out == run_line(lora + instead + " --json").out);
  }
  const test::Ran odd = run_line(lora + "--gpus 3x4090 --global-batch 64");
  CHECK(odd.code == 2);
  CHECK(odd.err.find("no multiple of micro batch 1 x 3 data parallel ranks") != std::string::npos);
  CHECK(run_line(lora + "--gpus 4xA6000 --global-batch 64 --grad-accum 2").code == 2);
}

TEST_CASE("words: a model or a trainer's file, and GPUs, need no flags") {
  const std::string flags = "estimate --model llama3-8b --gpus 4xA6000 --lora --json";
  CHECK(run_line("estimate llama3-8b 4xA6000 --lora --json").out == run_line(flags).out);
  CHECK(run_line("estimate 4xA6000 --lora --json llama3-8b").out == run_line(flags).out);
  CHECK(run_line("simulate llama3-8b 2x3090 --qlora").code == 0);
  for (const char* line :
       {"estimate llama3-8b 4 x RTX A6000 --lora --json", "estimate 4xRTX A6000 llama3-8b --lora --json",
        "estimate llama3-8b --lora A6000x4 --json", "estimate llama3-8b --lora 4 A6000 --json"})
    CHECK_MESSAGE(nlohmann::json::parse(run_line(line).out).at("strategies") ==
                      nlohmann::json::parse(run_line(flags).out).at("strategies"),
                  line);
  const test::Ran misspelt = run_line("estimate llama3-8b --lora 2x4009");
  CHECK(misspelt.code == 2);
  CHECK(misspelt.err.find("--gpus: unknown GPU '4009'\n  did you mean '4090'?") != std::string::npos);
  CHECK(run_line("estimate 8x7b 2x3090").err.find("--model: unknown model '8x7b'") != std::string::npos);
  const std::string inputs = GPUPLAN_TEST_DIR "/golden/inputs/";
  CHECK(run_line("estimate " + inputs + "sft.yaml 2x4090 --json").out ==
        run_line("estimate --from " + inputs + "sft.yaml --gpus 2x4090 --json").out);
  CHECK(run_line("estimate " + inputs + "full.yaml " + inputs + "zero.json 2x4090 --json").out ==
        run_line("estimate --from " + inputs + "full.yaml --from " + inputs + "zero.json --gpus 2x4090 --json").out);
  const test::Ran twice = run_line("estimate llama3-8b qwen2.5-7b 2x3090");
  CHECK(twice.code == 2);
  CHECK(twice.err.find("'qwen2.5-7b' says --model a second time") != std::string::npos);
  CHECK(run_line("estimate nosuchmodel 2x3090").code == 2);
}

TEST_CASE("a trainer's file that does not fit as it is: the answer names fix, for files that fix can write in") {
  const std::string inputs = GPUPLAN_TEST_DIR "/golden/inputs/";
  const auto says = [&](const std::string& line) {
    std::string text;
    for (const char c : run_line(line).out)
      if (c != '\n') text += c;
    return text.find("gpuplan fix") != std::string::npos;
  };
  CHECK(says("estimate " + inputs + "axolotl.yaml 2x3090"));
  CHECK_FALSE(says("estimate " + inputs + "sft.yaml 2x4090"));  // fits
  CHECK_FALSE(says("estimate --model llama3-8b --full --gpus 1x3090 --as-given"));
}

TEST_CASE("machines name the network of several, and what a ring reaches in a benchmark and in a step") {
  // nccl-tests' 234.9 GB/s, of which NVLink in a training reaches 0.9
  const std::string one = test::run_line("machines dgx-a100-80gb").out;
  CHECK(one.find("235 GB/s, 212 GB/s while a step trains") != std::string::npos);
  CHECK(one.find("none: one machine") == std::string::npos);
  CHECK(test::run_line("topology --cluster dgx-a100-80gb").out.find("212 GB/s leave every GPU") != std::string::npos);
  CHECK(test::run_line("machines ws-2x-4090").out.find("none: one machine") != std::string::npos);
  std::ostringstream out, err;
  run({"machines", "a100"}, out, err, {.width = 160});
  CHECK(out.str().find("  network  ") != std::string::npos);
}

}  // namespace gpuplan
