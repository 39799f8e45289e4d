// What the program answers to random questions, a line each, so that two programs can be compared:
//   GPUPLAN_RECORD=old.txt build/release/tests/test_questions -tc='answers are written down*'    in the old tree
//   GPUPLAN_RECORD=new.txt build/release/tests/test_questions -tc='answers are written down*'    in the new one
//   diff old.txt new.txt
// GPUPLAN_QUESTIONS and GPUPLAN_QUESTIONS_SEED say how many, and which.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/names.h"
#include "base/sha256.h"
#include "questions/ask.h"
#include "questions/random_question.h"

namespace {

using namespace gpuplan;
using namespace gpuplan::test;
namespace fs = std::filesystem;

/// Everything that an answer is: exit code, both streams, and the files that it wrote; without the time that it took.
std::string whole(const Answered& answered) {
  std::string text = fmt::format("{}\n{}\n{}\n", answered.code, answered.out, answered.err);
  for (const auto& [path, content] : take_files_written()) text += fmt::format("{}\n{}\n", path, content);
  const std::string folder = fs::current_path().string();
  for (std::size_t at; (at = text.find(folder)) != std::string::npos;) text.replace(at, folder.size(), "FOLDER");
  return without_time(text);
}

std::string setting(const char* name, const char* otherwise) {
  const char* const set = std::getenv(name);
  return set ? set : otherwise;
}

}  // namespace

TEST_CASE("answers are written down for a comparison") {
  const std::string name = setting("GPUPLAN_RECORD", "");
  if (name.empty()) return;
  const std::uint64_t count = std::strtoull(setting("GPUPLAN_QUESTIONS", "20000").c_str(), nullptr, 10),
                      seed = std::strtoull(setting("GPUPLAN_QUESTIONS_SEED", "1").c_str(), nullptr, 10);
  const fs::path file = fs::absolute(name);
  std::ofstream(file).flush();
  std::vector<Question> questions;
  for (std::uint64_t q = 0; q < count; ++q) questions.push_back(random_question(seed, q));
  const auto verdicts = check_all(questions, [&](const Question& q) -> std::string {
    const std::string text = whole(ask(q));
    std::ofstream(file, std::ios::app) << fmt::format("{} {}\n", sha256_hex(text).substr(0, 16), q.line());
    return "";
  });
  for (std::size_t q = 0; q < verdicts.size(); ++q)
    if (!verdicts[q].empty()) std::ofstream(file, std::ios::app) << verdicts[q] << ": " << questions[q].line() << '\n';
}
