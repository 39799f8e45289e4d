// `answer` is a function: in one process, with other questions, cards, configurations and data in between, it says what
// a process of its own says that reads the same files from the disk.
// GPUPLAN_ENTRY says how many questions, GPUPLAN_QUESTIONS_SEED which.
#include <cstdlib>
#include <filesystem>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/files.h"
#include "base/json_file.h"
#include "cli/program.h"
#include "questions/ask.h"
#include "questions/random_question.h"
#include "sanitized.h"
#include "scratch_folder.h"

namespace {

using namespace gpuplan;
using namespace gpuplan::test;
namespace fs = std::filesystem;

std::uint64_t count_in(const char* name, std::uint64_t otherwise) {
  const char* const set = std::getenv(name);
  return set ? std::strtoull(set, nullptr, 10) : otherwise;
}

/// Paths that only a disk has are no files of `answer`, and devices are none of its outputs.
bool is_of_files(const Question& q) {
  const auto is_outside = [](const GivenFlag& flag) { return flag.value.starts_with("/") || flag.value == "."; };
  return q.command != "run" && q.command != "calibrate" && q.command != "serve" && !asks_too_much_of_files(q) &&
         std::none_of(q.flags.begin(), q.flags.end(), is_outside);
}

std::vector<Question> questions_of_files() {
  const std::uint64_t count = count_in("GPUPLAN_ENTRY", num_rounds(20, 40, 100)),
                      seed = count_in("GPUPLAN_QUESTIONS_SEED", 1);
  std::vector<Question> out;
  for (std::uint64_t n = 0; out.size() < count; ++n)
    if (Question q = random_question(seed, n); is_of_files(q))
      out.push_back(q.command == "plan" ? q.with("--json", "") : q);  // its text is wrapped around how long it took
  return out;
}

std::string text_of(int code, const std::string& out, const std::string& err,
                    const std::map<std::string, std::string>& written) {
  std::string text = fmt::format("exit code {}\n{}\n{}\n", code, out, err);
  for (const auto& [path, content] : written) text += fmt::format("== {}\n{}\n", path, content);
  return nlohmann::json::parse(
      json_line(nlohmann::json(without_time(text))));  // bytes that are no text, as a verdict shows them
}

/// A process for this question alone; it reads and writes the disk.
std::string of_own_process(const Question& question) {
  return check_all({question},
                   [](const Question& q) {
                     const Answered answered = ask(q);
                     return text_of(answered.code, answered.out, answered.err, take_files_written());
                   })
      .front();
}

/// The same names, and something else behind them: a card, a configuration, a plan, lengths, another data folder.
Surroundings others(Surroundings given, const fs::path& data) {
  given.variables["GPUPLAN_DATA_DIR"] = data.string();
  given.variables["XDG_DATA_HOME"] = "/elsewhere";
  given.files["/elsewhere/gpuplan/gpus/rtx-a6000.yaml"] = read_file(data_dir() / "gpus" / "t4.yaml");
  given.files["lengths.txt"] = "7\n";
  given.files["lora.json"] = given.files["full.json"];
  given.files["example0.yaml"] = "model: other\n";
  return given;
}

}  // namespace

TEST_CASE("answers of one process, with other worlds in between, are those of a process for each") {
  const ScratchFolder folder;
  fs::create_directories(folder.path() / "data");
  for (const auto& item : fs::directory_iterator(data_dir())) {
    const std::string name = item.path().filename().string();
    if (name == "gpus" || name == "links.yaml")
      fs::copy(item.path(), folder.path() / "data" / name, fs::copy_options::recursive);
    else
      fs::create_symlink(item.path(), folder.path() / "data" / name);
  }
  const fs::path card = folder.path() / "data" / "gpus" / "rtx-a6000.yaml";
  fs::copy_file(data_dir() / "gpus" / "h100-sxm.yaml", card, fs::copy_options::overwrite_existing);
  const Surroundings given = surroundings_of_questions(), other = others(given, folder.path() / "data");
  const std::vector<Question> questions = questions_of_files();
  int num_different = 0;
  for (const Question& q : questions) {
    const std::string expected = of_own_process(q);
    const Answer between = answer(q.words(), other), here = answer(q.words(), given);
    CAPTURE(q.line());
    CHECK(text_of(here.code, here.out, here.err, here.written) == expected);
    num_different += between.out != here.out;
  }
  CHECK(num_different > 0);  // the others are asked something else
}

TEST_CASE("an answer reads and writes what it was given, and nothing else") {
  Surroundings given{.files = {{"plan.json", "{}"}, {"taken.json", "mine"}}, .variables = {}};
  const std::vector<std::string> words{"estimate", "--model", "smollm2-135m", "--gpus", "2xA6000"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    return answer(all, given);
  };
  const Answer saved = with({"--save", "folder/new.json"});
  CHECK(saved.code == 0);
  CHECK(saved.written.size() == 1);
  CHECK(parse_json(saved.written.at("folder/new.json"), "").contains("gpuplan_version"));
  CHECK(!fs::exists("folder"));
  given.files["again.json"] = saved.written.at("folder/new.json");
  CHECK(answer({"estimate", "again.json"}, given).code == 0);
  CHECK(with({"--save", "taken.json"}).err.find("is no plan of gpuplan") != std::string::npos);
  CHECK(with({"--save", "taken.json"}).written.empty());
  CHECK(answer({"estimate", "missing.json"}, given).code == 2);
  const std::string outside = (data_dir() / "models" / ".." / ".." / "LICENSE").string();  // no file of the data
  CHECK(answer({"estimate", "--from", outside, "--gpus", "2xA6000"}, given).err.find("cannot be read") !=
        std::string::npos);
  CHECK(answer({"estimate", "--model", "some-lab/model", "--gpus", "2xA6000"}, given).err.find("no network is given") !=
        std::string::npos);
  CHECK(answer({"run", "--demo"}, given).err.find("needs a machine") != std::string::npos);
  CHECK(answer({"estimate", "--model", "smollm2-135m", "--gpus", "local"}, given).code == 3);
  CHECK(answer({"estimate", "--model", "smollm2-135m", "--gpus", "2xcpu"}, given).code == 3);  // no /proc/meminfo
  CHECK(answer({"--version"}, given).out == "gpuplan " GPUPLAN_VERSION "\n");
}
