// Only base/ asks the machine: it opens files, lists folders, reads variables, the clock and the terminal, so that
// nothing waits for a pipe, reads a folder of nobody, or misses what `answer` gives.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace {

namespace fs = std::filesystem;

struct Asked {
  const char* what;
  std::regex pattern;
  std::vector<std::string> by;  // files, or folders, that may
};

/// The ways to ask that libraries of C, C++ and ours have.
std::vector<Asked> asked() {
  return {
      {"a file is opened",
       std::regex(R"re(\bopen(?:at)?\([^;]*(?:\bO_[A-Z]|flags)|\b(?:creat|fopen|freopen|opendir|scandir)\()re"
                  R"re(|\b[io]?fstream\b|directory_iterator|\bLoadFile\(|\bload_file\()re"),
       {"base/files.cpp"}},
      {"a variable is read", std::regex(R"(\b(?:secure_)?getenv\(|\benviron;)"), {"base/environment.cpp"}},
      {"the clock of the calendar is read",
       std::regex(R"(std::time\(|\btime\(nullptr|system_clock|localtime|gmtime)"),
       {"base/date.cpp", "run/supervise.cpp"}},  // a job's name, which must be new
      {"the terminal is asked", std::regex(R"(\bisatty\(|\bioctl\()"), {"base/files.cpp", "report/text/screen.cpp"}},
      {"text is printed past the gate",
       std::regex(R"(std::(?:cout|cerr|clog|cin)\b|\b(?:f?printf|f?puts|fputc|putchar|fwrite|perror)\(|write\(STD)"),
       {"base/files.cpp", "cli/main.cpp", "cli/program.h"}},  // the streams that the gate is laid around
      {"a path is looked at",
       std::regex(R"(\b(?:fs|filesystem)::(?:exists|is_regular_file|is_directory|file_size|status|is_empty)\()"),
       {"base/", "device/", "rows/", "run/", "execute/"}},  // those of a machine
      {"a library is opened",
       std::regex(R"(\bdlopen\()"),
       {"base/https.cpp", "cluster/nvml.cpp", "device/backend.cpp", "device/cuda/context.cpp"}}};
}

std::vector<fs::path> product_files() {
  const fs::path root = fs::path(GPUPLAN_TEST_DIR).parent_path();
  std::vector<fs::path> files;
  for (const char* folder : {"base", "models", "device", "cluster", "planner", "ecosystem", "mend", "sim", "search",
                             "validate", "rows", "report", "cli", "fit", "calibrate", "run", "serve", "execute"})
    for (const auto& item : fs::recursive_directory_iterator(root / folder))
      if (const std::string kind = item.path().extension(); kind == ".cpp" || kind == ".h" || kind == ".cu")
        files.push_back(item.path().lexically_relative(root));
  return files;
}

}  // namespace

TEST_CASE("nothing but the gate opens files, reads variables and the clock, or prints") {
  const std::vector<Asked> all = asked();
  const std::vector<fs::path> files = product_files();
  CHECK(files.size() > 500);
  std::vector<int> found(all.size());
  for (const fs::path& name : files) {
    std::ifstream file(fs::path(GPUPLAN_TEST_DIR).parent_path() / name);
    for (std::string line; std::getline(file, line);) {
      line = line.substr(0, line.find("//"));
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (!std::regex_search(line, all[i].pattern)) continue;
        ++found[i];
        const bool may = std::ranges::any_of(all[i].by, [&](const std::string& by) {
          return name.string() == by || (by.ends_with('/') && name.string().starts_with(by));
        });
        CHECK_MESSAGE(may, name.string(), ": ", all[i].what, ": ", line);
      }
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) CHECK_MESSAGE(found[i] > 0, all[i].what, ": the pattern finds nothing");
}
