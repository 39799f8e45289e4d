// Only base/ asks the machine: it opens files, lists folders, reads variables, the clock and the terminal, so that
// nothing waits for a pipe, reads a folder of nobody, or misses what `answer` gives.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
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

/// The ways to ask that libraries of C, C++ and ours have. A member of that name (`topology.link(`) is none of them.
std::vector<Asked> asked() {
  return {
      {"a file is opened",
       std::regex(
           R"re(\bopen(?:at)?(?:64)?\([^;]*(?:\bO_[A-Z]|flags)|\b[io]?fstream\b|directory_iterator)re"
           R"re(|\b(?:creat|fd?open|freopen|popen|opendir|fdopendir|scandir|s?mkd?o?temps?|tmpfile|memfd_create|shm_open)\()re"
           R"re(|\b(?:LoadFile|LoadAllFromFile|load_file|gzopen|output_file|ExistingFile|ExistingPath)\b)re"),
       {"base/files.cpp", "base/own_folder.cpp",             // their folder under a new name
        "device/mpi/shared_sync.cpp", "serve/server.cpp"}},  // memory without a name, for their own processes
      {"a variable is read", std::regex(R"(\b(?:secure_)?getenv\(|\benviron;)"), {"base/environment.cpp"}},
      {"a variable is set",
       std::regex(R"(\b(?:set|unset|put|clear)env\()"),
       {"run/gpu_check.cpp", "device/backend.cpp"}},  // that CUDA and OpenMP read when they are loaded
      {"the clock of the calendar is read",
       std::regex(R"(std::time\(|\btime\(nullptr|system_clock|localtime|gmtime|gettimeofday|CLOCK_REALTIME|utc_clock)"),
       {"base/date.cpp", "run/supervise.cpp"}},  // a job's name, which must be new
      {"the terminal is asked",
       std::regex(R"(\b(?:isatty|ioctl|tcgetattr|ttyname)\()"),
       {"base/files.cpp", "report/text/screen.cpp"}},
      {"text is printed past the gate",
       std::regex(
           R"(std::w?(?:cout|cerr|clog|cin)\b|fmt::print|\b(?:v?[df]?printf|f?puts|f?putc|putchar|fwrite|perror|psignal)\()"
           R"(|\bwrite\((?:STD|1\b|2\b)|\bsyslog\(|backtrace_symbols_fd)"),
       {"base/files.cpp", "cli/main.cpp", "cli/program.h",  // the streams that the gate is laid around
        "web/engine/answers.cpp"}},                         // a test's, whose lines are JSON
      {"a path is looked at",
       std::regex(
           R"(\b(?:fs|filesystem)::(?:exists|is_\w+|file_size|(?:symlink_)?status|last_write_time|(?:weakly_)?canonical)"
           R"(|absolute|current_path|read_symlink|equivalent|temp_directory_path|space)\()"
           R"(|(?:^|[^.>\w])(?:l?stat|access|faccessat|realpath|readlink|getcwd|chdir)\(\w)"),
       {"base/", "run/preflight.cpp",     // room on the disk
        "run/files/output_folder.cpp"}},  // a folder that is held open
      {"a file is removed, made or changed by its name",
       std::regex(
           R"(\b(?:fs|filesystem)::(?:remove|rename|copy|create_\w+|permissions|resize_file|last_write_time)\w*\()"
           R"(|std::(?:rename\(|remove\(\w+(?:\.c_str\(\))?\))|(?:^|[^.>\w:])(?:unlink|unlinkat|renameat2?|mkdir|rmdir|symlink|truncate|chmod|chown|mkfifo)\(\w)"),
       {"base/", "run/", "rows/file_access.cpp",  // what is trained
        "calibrate/journal.cpp"}},                // a calibration's own notes
      {"another program is started",
       std::regex(R"((?:^|[^.>\w])(?:std::)?(?:system|v?fork|exec[vl][pe]*|posix_spawnp?|clone)\()"),
       {"base/child_process.cpp"}},
      {"the network is asked",
       std::regex(
           R"((?:^|[^.>\w:])(?:socket|getaddrinfo|gethostbyname)\((?:AF_|at|host|PF_)|curl_easy_init|tcp::acceptor)"),
       {"base/https.cpp", "run/rendezvous.cpp", "run/preflight.cpp", "serve/server.cpp", "serve/server.h"}},
      {"the machine is asked",
       std::regex(R"(hardware_concurrency|\b(?:sysconf|sched_getaffinity|sysinfo|uname|getpwuid\w*|getrlimit)\()"),
       {"base/processor.cpp", "base/user_folders.cpp", "device/cpu/host.cpp", "device/mpi/communicator.cpp",
        "web/engine/system.cpp"}},  // stands in for what a browser has not
      {"a library is opened",
       std::regex(R"(\bdlopen\()"),
       {"base/https.cpp", "cluster/nvml.cpp", "device/backend.cpp", "device/cuda/context.cpp",
        "web/engine/system.cpp"}}};
}

/// Folders that hold nothing of the program: tests, measurements of it, and what builds it.
const std::set<std::string> kNoProgram{"tests", "bench", "build", "cmake", "scripts", ".git"};
/// Folders whose sources are no part of the WebAssembly module (cmake/Web.cmake).
const std::set<std::string> kOnMachines{"calibrate", "execute", "fit", "run", "serve", "web"};
/// Objects of std::ranges that libc++ 13 has itself.
const std::set<std::string> kInLibcxx13{"equal_to", "greater", "greater_equal", "less", "less_equal", "not_equal_to"};
const std::set<std::string> kCode{".cpp", ".h", ".cu", ".cuh", ".cc", ".c", ".hpp"};

std::vector<fs::path> product_files() {
  const fs::path root = fs::path(GPUPLAN_TEST_DIR).parent_path();
  std::vector<fs::path> files;
  for (const auto& folder : fs::directory_iterator(root)) {
    if (!folder.is_directory() || kNoProgram.contains(folder.path().filename().string())) continue;
    for (const auto& item : fs::recursive_directory_iterator(folder))
      if (const std::string kind = item.path().extension(); kCode.contains(kind))
        files.push_back(item.path().lexically_relative(root));
  }
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

TEST_CASE("the library of the WebAssembly module has every algorithm of std::ranges that is called") {
  const fs::path root = fs::path(GPUPLAN_TEST_DIR).parent_path();
  std::set<std::string> known = kInLibcxx13;
  const std::regex definition(R"re(^(?:auto|bool|void) (\w+)\()re"), call(R"re(std::ranges::(\w+))re");
  std::ifstream header(root / "web/engine/libcxx13.h");
  std::smatch match;
  for (std::string line; std::getline(header, line);)
    if (std::regex_search(line, match, definition)) known.insert(match[1]);
  CHECK(known.contains("any_of"));
  for (const fs::path& name : product_files()) {
    if (kOnMachines.contains(name.begin()->string())) continue;
    std::ifstream file(root / name);
    for (std::string line; std::getline(file, line);)
      for (; std::regex_search(line, match, call); line = match.suffix())
        CHECK_MESSAGE(known.contains(match[1]), name.string(), ": std::ranges::", match[1].str(),
                      " is missing in web/engine/libcxx13.h");
  }
}
