// Sample output in README.md and docs/ is what the program prints today. A fence
//
//   ```console
//   $ gpuplan models --show tinyllama | head -3
//   …
//   ```
//
// holds commands and their standard output. GPUPLAN_UPDATE_GOLDEN=1 rewrites it. The commands see no profile and no GPU
// of this machine.
// Also: tests/README.md and docs/ name tests that exist.
#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/files.h"
#include "golden/command_line.h"
#include "scratch_folder.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFence = "```", kConsole = "```console", kShellPrompt = "$ ";

/// The arguments of "$ ./gpuplan ARGUMENTS" or "$ gpuplan ARGUMENTS".
std::string_view arguments_of(std::string_view line) {
  line.remove_prefix(kShellPrompt.size());
  for (const std::string_view program : {"./gpuplan ", "gpuplan "})
    if (line.starts_with(program)) return line.substr(program.size());
  FAIL("a console fence shows another program: ", std::string(line));
  return {};
}

/// The page with the output of every command in its console fences as it is today.
std::string with_output_of_today(const std::string& page, int& num_commands) {
  std::istringstream lines(page);
  std::string rewritten;
  bool is_console = false, is_output = false;
  for (std::string line; std::getline(lines, line);) {
    const bool is_fence = line.starts_with(kFence);
    if (is_fence) is_output = false;
    if (!is_output || line.starts_with(kShellPrompt)) rewritten += line + "\n";
    if (is_fence) is_console = !is_console && line == kConsole;
    if (!is_console || !line.starts_with(kShellPrompt)) continue;
    is_output = true;
    ++num_commands;
    rewritten += test::run_line(arguments_of(line)).out;
  }
  return rewritten;
}

/// Pages name the files of examples/files as if they stood in the current folder, and may write beside them.
class PageFolder {
 public:
  PageFolder(const fs::path& folder, const fs::path& files) : before_(fs::current_path()) {
    for (const auto& entry : fs::directory_iterator(files)) fs::copy_file(entry, folder / entry.path().filename());
    fs::current_path(folder);
  }
  ~PageFolder() { fs::current_path(before_); }
  PageFolder(const PageFolder&) = delete;
  PageFolder& operator=(const PageFolder&) = delete;

 private:
  fs::path before_;
};

/// C++ text with string literals that stand side by side joined.
std::string joined_literals(const std::string& code) {
  return std::regex_replace(code, std::regex(R"("\s*\n\s*")"), "");
}

}  // namespace

TEST_CASE("every test case that tests/README.md names exists in its file") {
  const fs::path root = fs::path(GPUPLAN_TEST_DIR);
  const std::string page = read_file(root / "README.md");
  const std::regex row(R"(\n\| [^|]*\| `([^`]+)` \| ([^|]+) \|)");
  int num_rows = 0;
  for (auto at = std::sregex_iterator(page.begin(), page.end(), row); at != std::sregex_iterator(); ++at, ++num_rows)
    CHECK_MESSAGE(joined_literals(read_file(root / at->str(1))).find("\"" + at->str(2) + "\")") != std::string::npos,
                  at->str());
  CHECK(num_rows >= 30);
}

TEST_CASE("every test that a page of docs/ names beside a promise exists") {
  const fs::path tests = fs::path(GPUPLAN_TEST_DIR), root = tests.parent_path();
  // in backquotes: a path that begins with tests/, or a test's file by its path from the root or from tests/
  const std::regex name(R"(`(tests/[\w./-]+|[\w./-]+_test\.(cpp|sh|py))`)");
  int num_names = 0;
  std::vector<fs::path> pages{tests / "README.md"};
  for (const auto& entry : fs::directory_iterator(root / "docs"))
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  for (const fs::path& file : pages) {
    const std::string page = read_file(file);
    for (auto at = std::sregex_iterator(page.begin(), page.end(), name); at != std::sregex_iterator();
         ++at, ++num_names)
      CHECK_MESSAGE((fs::exists(root / at->str(1)) || fs::exists(tests / at->str(1))), file.string(), " names ",
                    at->str(1));
  }
  CHECK(num_names >= 150);
}

namespace {

/// The libraries of CMakeLists.txt, and what each uses, as a picture: a column for each step away from base.
std::string drawn_folders(const std::string& cmake) {
  const std::regex library(R"(gpuplan_library\((\w+)\s+LINKS ([^)\n]*)\))"), ours(R"(gpuplan_(\w+))");
  std::string picture;
  for (auto at = std::sregex_iterator(cmake.begin(), cmake.end(), library); at != std::sregex_iterator(); ++at) {
    const std::string links = at->str(2);
    std::string uses;
    for (auto used = std::sregex_iterator(links.begin(), links.end(), ours); used != std::sregex_iterator(); ++used)
      uses += (uses.empty() ? " ─► " : ", ") + used->str(1);
    picture += uses.empty() ? fmt::format("    {}\n", at->str(1)) : fmt::format("    {:<10}{}\n", at->str(1), uses);
  }
  return picture;
}

}  // namespace

TEST_CASE("docs/architecture.md draws the folders as CMake builds them") {
  constexpr std::string_view kEnd = "<!-- end of the drawing -->";
  const fs::path root = fs::path(GPUPLAN_TEST_DIR).parent_path(), file = root / "docs" / "architecture.md";
  const std::string page = read_file(file), picture = drawn_folders(read_file(root / "CMakeLists.txt"));
  const std::size_t begin = page.find("-->\n", page.find("<!-- drawn from CMakeLists.txt")) + 4, end = page.find(kEnd);
  REQUIRE((begin > 4 && end != std::string::npos));
  const std::string today = page.substr(0, begin) + "\n" + picture + "\n" + page.substr(end);
  if (test::is_updating() && page != today) write_file_atomically(file, today);
  if (!test::is_updating()) CHECK(page == today);
  CHECK(std::ranges::count(picture, '\n') >= 16);
}

TEST_CASE("every path that a comment or a page names exists") {
  const fs::path root = fs::path(GPUPLAN_TEST_DIR).parent_path();
  // folder/…/name.ending, or folder/…/name in backquotes
  const std::regex name(
      R"((?:^|[^\w./:<>{}$*-])((?:base|models|device|cluster|planner|ecosystem|mend|sim|diagnose|search|validate)"
      R"(|rows|report|cli|fit|calibrate|run|serve|execute|web|data|docs|scripts|cmake|bench|tests)/[\w/.-]*\w)"
      R"(\.(?:cpp|h|cu|yaml|json|jsonl|md|py|sh|txt|cmake|css|m?js|html|tsv))(?![\w*<{]))");
  const std::set<std::string> kinds{".cpp", ".h", ".cu", ".cmake", ".py", ".sh", ".js", ".mjs", ".css", ".html", ""};
  int num_names = 0;
  for (const auto& item : fs::recursive_directory_iterator(root)) {
    const fs::path file = item.path().lexically_relative(root);
    const std::string kind = file.extension(), top = file.begin()->string();
    const bool is_page = kind == ".md";
    if (top == "build" || top == ".git" || !item.is_regular_file()) continue;
    if (!is_page && !kinds.contains(kind) && file.filename() != "CMakeLists.txt") continue;
    std::istringstream lines(read_file(item.path()));
    for (std::string line; std::getline(lines, line);) {
      const std::size_t comment = is_page ? 0 : std::min({line.find("// "), line.find("# "), line.find("/* ")});
      if (comment == std::string::npos) continue;
      const std::string text = line.substr(comment);
      for (auto at = std::sregex_iterator(text.begin(), text.end(), name); at != std::sregex_iterator();
           ++at, ++num_names) {
        const std::string path = at->str(1);
        const bool is_there =
            fs::exists(root / path) || fs::exists(root / "tests" / path) || fs::exists(root / "data" / path);
        CHECK_MESSAGE(is_there, file.string(), " names ", path, ": ", text);
      }
    }
  }
  CHECK(num_names >= 500);
}

TEST_CASE("sample output in README.md and docs/ is what the program prints") {
  const fs::path root = fs::path(GPUPLAN_TEST_DIR).parent_path();
  const test::ScratchFolder scratch;
  const test::Variable profiles("GPUPLAN_PROFILE_DIR", scratch.path().c_str());
  const test::Variable gpus("CUDA_VISIBLE_DEVICES", "");
  const PageFolder folder(scratch.path(), root / "examples" / "files");
  std::vector<fs::path> pages{root / "README.md"};
  for (const auto& entry : fs::directory_iterator(root / "docs"))
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  std::sort(pages.begin(), pages.end());
  int num_commands = 0;
  for (const fs::path& file : pages) {
    const std::string page = read_file(file), today = with_output_of_today(page, num_commands);
    if (test::is_updating() && page != today) write_file_atomically(file, today);
    if (!test::is_updating()) CHECK_MESSAGE(page == today, file.string(), " shows other output than the program's");
  }
  CHECK(num_commands > 0);
}

}  // namespace gpuplan
