#include "cli/output_flags.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <sys/stat.h>

#include <doctest/doctest.h>
#include <CLI/CLI.hpp>

#include "base/files.h"
#include "cli/arguments.h"
#include "cli/program.h"
#include "cluster/profile/profile.h"
#include "environment_variable.h"
#include "scratch_folder.h"

using namespace gpuplan;

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

const Words kQuestion{"--model", "smollm2-135m", "--gpus", "2xA6000"};

/// Asks in this process; the exit code, and in `err` what it told.
int ask(const Words& begin, const Words& rest, std::string* err = nullptr) {
  Words words = begin;
  words.insert(words.end(), rest.begin(), rest.end());
  std::ostringstream out, told;
  const int code = run(words, out, told);
  if (err) *err = told.str();
  return code;
}

Words with_question(const std::string& command) {
  Words words{command};
  words.insert(words.end(), kQuestion.begin(), kQuestion.end());
  return words;
}

}  // namespace

TEST_CASE(
    "every flag that takes a file or a folder is known as an output, which never replaces an input, or as input") {
  constexpr std::array<std::string_view, 8> kInputs{"--lengths", "--data",  "--tokenizer", "--from",
                                                    "--prices",  "--hosts", "--adapter",   "--log"};
  CLI::App app;
  declare_commands(app);
  int num_outputs = 0;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    for (const CLI::Option* option : command->get_options()) {
      const std::string type = option->get_type_name(), name = option->get_name();
      if (type != "FILE" && type != "DIR") continue;
      CAPTURE(name);
      const bool is_input = std::ranges::find(kInputs, name) != kInputs.end();
      CHECK(is_output_flag(name) != is_input);
      num_outputs += !is_input;
    }
  CHECK(num_outputs > 10);
}

TEST_CASE("outputs: a file that gpuplan did not write is replaced with --force alone") {
  const test::ScratchFolder folder;
  // With the marks of gpuplan's files, but not where those have them.
  const std::string mine =
      "the only copy of my thesis\nschema_version: 1\n{\"gpuplan_version\": \"0.1\", \"sha256\": \"0\"}\n"
      "<meta name=\"generator\" content=\"gpuplan 0.1\"> class=\"gptopo\" class=\"fits\"\nprobe,family,num_ranks,\n"
      "Written by `gpuplan validate ...`. Written by gpuplan validate --save-ranges. # Made by gpuplan 0.1\n";
  const std::string profiles = GPUPLAN_TEST_DIR "/golden/inputs/profiles";
  const test::Variable profile_dir("GPUPLAN_PROFILE_DIR", profiles.c_str());
  const auto profile_as = [](const std::string& format) {
    return Words{"profiles", "export", "l40s-20261120-0900", "--format", format};
  };
  struct Output {
    Words words;
    std::string flag;
  };
  for (const Output& output :
       {Output{with_question("estimate"), "--save"}, Output{with_question("plan"), "--save"},
        Output{with_question("plan"), "--html"}, Output{with_question("simulate"), "--trace"},
        Output{with_question("simulate"), "--html"}, Output{{"topology", "--gpus", "8xH100"}, "--svg"},
        Output{{"validate"}, "--report"}, Output{{"validate"}, "--save-ranges"}, Output{profile_as("yaml"), "--output"},
        Output{profile_as("json"), "--output"}, Output{profile_as("csv"), "--output"},
        Output{profile_as("svg"), "--output"}}) {
    CAPTURE(output.words.front());
    CAPTURE(output.flag);
    const std::string file = folder.write("thesis", mine).string();
    const Words here{output.flag, file};
    std::string err;
    CHECK(ask(output.words, here, &err) == 2);
    CHECK(err.find(file + " is there already, and is no ") != std::string::npos);
    CHECK(read_file(file) == mine);
    CHECK(ask(output.words, {output.flag, file, "--force"}) == 0);
    CHECK(read_file(file) != mine);
    CHECK(ask(output.words, here) == 0);  // its own it replaces
    folder.write("thesis", "");           // of mktemp
    CHECK(ask(output.words, here) == 0);
  }
  std::string err;
  CHECK(ask(with_question("estimate"), {"--force"}, &err) == 2);
  CHECK(err.find("--force: has nothing to replace") != std::string::npos);
}

TEST_CASE("outputs: JSON of the user that has gpuplan's words below its top is not gpuplan's") {
  const test::ScratchFolder folder;
  const std::string mine = R"({"about": {"gpuplan_version": "0.1.0"}, "gpuplan_version": 1, "schema_version": 1})";
  const std::string file = folder.write("mine.json", mine).string();
  for (const Words& words : {with_question("estimate"), with_question("plan")})
    CHECK(ask(words, {"--save", file}) == 2);
  CHECK(read_file(file) == mine);
}

TEST_CASE("outputs: fix replaces nothing but what it is told to: --write the files themselves, --force another one") {
  const test::ScratchFolder folder;
  const auto at = [&](const char* name) { return (folder.path() / name).string(); };
  fs::copy_file(GPUPLAN_TEST_DIR "/golden/inputs/axolotl.yaml", at("axolotl.yaml"));
  const std::string before = read_file(at("axolotl.yaml")), mine = kProfileBegins.data() + std::string("mine: 1\n");
  const Words question{"fix", at("axolotl.yaml"), "--gpus", "1x3060", "--allow", "context,batch,method"};
  folder.write("other.yaml", mine);
  fs::create_directory(at("folder"));
  folder.write("folder/axolotl.yaml", mine);
  for (const char* place : {"other.yaml", "folder"}) {
    CAPTURE(place);
    const std::string file = place == std::string("folder") ? at("folder/axolotl.yaml") : at(place);
    std::string err;
    CHECK(ask(question, {"--output", at(place)}, &err) == 2);
    CHECK(err.find(file) != std::string::npos);
    CHECK(err.find("is there already") != std::string::npos);
    CHECK(read_file(file) == mine);
    CHECK(ask(question, {"--output", at(place), "--force"}) < 2);
    CHECK(read_file(file) != mine);
    CHECK(ask(question, {"--output", at(place)}) == 2);  // what it wrote is the user's, too
  }
  CHECK(read_file(at("axolotl.yaml")) == before);
  CHECK(ask(question, {"--write"}) < 2);
  CHECK(read_file(at("axolotl.yaml.orig")) == before);
  CHECK(read_file(at("axolotl.yaml")) != before);
}

TEST_CASE("outputs: an export follows no link out of its folder, and writes to nothing that is no file") {
  const test::ScratchFolder folder;
  const std::string plan = (folder.path() / "plan.json").string(), out = (folder.path() / "out").string();
  REQUIRE(ask(with_question("estimate"), {"--save", plan}) == 0);
  const Words question{"export", plan, "--for", "transformers", "--output", out};
  REQUIRE(ask(question, {}) == 0);
  const fs::path file = fs::directory_iterator(out)->path();
  const fs::path victim = folder.write("victim", "mine");
  for (const bool is_there : {true, false}) {
    fs::remove(file);
    if (!is_there) fs::remove(victim);
    fs::create_symlink("../victim", file);
    std::string err;
    CHECK(ask(question, {}) == 2);
    CHECK(ask(question, {"--force"}, &err) == 2);
    CHECK(err.find("is a link, which is not followed") != std::string::npos);
    CHECK(fs::exists(victim) == is_there);
  }
  fs::remove(file);
  REQUIRE(mkfifo(file.c_str(), 0600) == 0);
  CHECK(ask(question, {"--force"}) == 2);
}

TEST_CASE("outputs: what a command reads without a flag of its own is not replaced either") {
  const test::ScratchFolder folder;
  const auto at = [&](const char* name) { return (folder.path() / name).string(); };
  REQUIRE(ask(with_question("estimate"), {"--save", at("plan.json")}) == 0);
  fs::create_directory(at("out"));
  fs::copy_file(at("plan.json"), at("out/sft.yaml"));
  const std::string plan = read_file(at("plan.json"));
  std::string refused;
  CHECK(ask({"export", at("out/sft.yaml"), "--for", "trl"}, {"--output", at("out"), "--force"}, &refused) == 2);
  CHECK(refused.find("is what the files are made from") != std::string::npos);
  CHECK(read_file(at("out/sft.yaml")) == plan);
  const std::string engine = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: 2\n";
  folder.write("engine.yaml", engine);
  folder.write("start.sh", "accelerate launch --config_file engine.yaml -m trl.scripts.sft --max_length 1024\n");
  std::string err;
  CHECK(ask({"estimate", "--model", "llama-3.2-1b", "--lora", "--from", at("start.sh"), "--gpus", "2xA6000"},
            {"--save", at("engine.yaml"), "--force"}, &err) == 2);
  CHECK(err.find("engine.yaml is read") != std::string::npos);
  CHECK(read_file(at("engine.yaml")) == engine);
}

TEST_CASE("outputs: '-' is standard output, the answer goes to standard error, and no file of that name is written") {
  const test::ScratchFolder scratch;
  const fs::path before = fs::current_path();
  fs::current_path(scratch.path());
  for (const auto& [words, begin] :
       {std::pair(Words{"estimate", "--save", "-"}, "{"), std::pair(Words{"simulate", "--trace", "-"}, "{"),
        std::pair(Words{"simulate", "--html", "-"}, "<!DOCTYPE html>"),
        std::pair(Words{"topology", "--svg", "-"}, "<svg")}) {
    CAPTURE(words.front());
    Words all = words;
    all.insert(all.end(), kQuestion.begin() + (words.front() == "topology" ? 2 : 0), kQuestion.end());
    std::ostringstream out, told;
    CHECK(run(all, out, told) == 0);
    CHECK(out.str().starts_with(begin));
    CHECK(told.str().find("A6000") != std::string::npos);
    CHECK(fs::is_empty(scratch.path()));
  }
  fs::current_path(before);
}
