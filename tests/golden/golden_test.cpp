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
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/files.h"
#include "base/names.h"
#include "cli/program.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrompt = "$ gpuplan";

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
    if (line.starts_with(kPrompt)) current = &file.cases.emplace_back();
    *current += line + "\n";
  }
  return file;
}

/// Words as a shell would cut them, single and double quotes included.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  char quote = 0;
  bool in_word = false;
  for (const char c : text) {
    const bool is_quote = c == '\'' || c == '"';
    if (quote == 0 && c == ' ') {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (quote == c)
      quote = 0;
    else if (quote == 0 && is_quote)
      quote = c;
    else
      words.back() += c;
  }
  return words;
}

/// The case as it should stand in the file.
std::string run_case(const std::string& command) {
  const std::size_t input = command.find(" < ");
  std::vector<std::string> words =
      words_of(command.substr(kPrompt.size(), input == std::string::npos ? input : input - kPrompt.size()));
  std::istringstream in(input == std::string::npos ? "" : read_file(command.substr(input + 3)));
  std::ostringstream out, err;
  const int code = run(words, out, err, {}, in);
  return fmt::format("{}\nexit: {}\n{}{}{}\n", command, code, out.str(), err.str().empty() ? "" : "stderr:\n",
                     err.str());
}

bool is_updating() {
  const char* update = std::getenv("GPUPLAN_UPDATE_GOLDEN");
  return update && std::string(update) == "1";
}

/// A variable of the environment while this lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

void check_file(const fs::path& path) {
  const Variable profiles("GPUPLAN_PROFILE_DIR", ("inputs" / path.stem()).c_str());
  GoldenFile file = read_golden(path);
  std::string rewritten = file.head;
  for (const std::string& expected : file.cases) {
    const std::string actual = run_case(first_line(expected));
    rewritten += actual;
    if (!is_updating()) CHECK_MESSAGE(actual == expected, path.filename().string(), ": ", first_line(expected));
  }
  if (is_updating()) write_file_atomically(path, rewritten);
}

}  // namespace

TEST_CASE("the commands of tests/golden print exactly what is recorded there") {
  const fs::path folder = fs::path(GPUPLAN_TEST_DIR) / "golden", before = fs::current_path();
  fs::current_path(folder);
  const Variable gpus("CUDA_VISIBLE_DEVICES", "");
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  CHECK(!files.empty());
  for (const fs::path& file : files) check_file(file);
  fs::current_path(before);
}

}  // namespace gpuplan
