// Runs the commands of tests/golden/*.txt in this process and compares what they print, to the last character.
//
//   $ gpuplan models nosuch          a command; '<' and a file name at its end give it standard input
//   exit: 1
//   …                                standard output
//   stderr:                          only when there is any
//   …
//
// An empty line ends a case. GPUPLAN_UPDATE_GOLDEN=1 rewrites the files. Commands run in this folder, so that they can
// name files in inputs/; those of NAME.txt see the measured profiles in inputs/NAME, if there are any, and no GPU.
#include <algorithm>
#include <filesystem>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/files.h"
#include "base/names.h"
#include "golden/command_line.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCommandPrompt = "$ gpuplan";

struct GoldenFile {
  std::string head;                // comments before the first case
  std::vector<std::string> cases;  // each with the empty line that ends it
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

GoldenFile read_golden(const fs::path& path) {
  GoldenFile file;
  std::istringstream lines(read_file(path));
  std::string* current = &file.head;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kCommandPrompt)) current = &file.cases.emplace_back();
    *current += line + "\n";
  }
  return file;
}

/// The case as it should stand in the file.
std::string run_case(const std::string& command) {
  const test::Ran ran = test::run_line(std::string_view(command).substr(kCommandPrompt.size()));
  return fmt::format("{}\nexit: {}\n{}{}{}\n", command, ran.code, ran.out, ran.err.empty() ? "" : "stderr:\n", ran.err);
}

void check_file(const fs::path& path) {
  const test::Variable profiles("GPUPLAN_PROFILE_DIR", ("inputs" / path.stem()).c_str());
  GoldenFile file = read_golden(path);
  std::string rewritten = file.head;
  for (const std::string& expected : file.cases) {
    const std::string actual = run_case(first_line(expected));
    rewritten += actual;
    if (!test::is_updating()) CHECK_MESSAGE(actual == expected, path.filename().string(), ": ", first_line(expected));
  }
  if (test::is_updating()) write_file_atomically(path, rewritten);
}

}  // namespace

TEST_CASE("the commands of tests/golden print exactly what is recorded there") {
  const fs::path folder = fs::path(GPUPLAN_TEST_DIR) / "golden", before = fs::current_path();
  fs::current_path(folder);
  const test::Variable gpus("CUDA_VISIBLE_DEVICES", "");
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  CHECK(!files.empty());
  for (const fs::path& file : files) check_file(file);
  fs::current_path(before);
}

}  // namespace gpuplan
