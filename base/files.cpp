#include "base/files.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

fs::path find_data_dir() {
  std::vector<fs::path> tried;
  const auto usable = [&](const fs::path& dir) { tried.push_back(dir); return fs::is_directory(dir / "models"); };
  if (const char* env = std::getenv("GPUPLAN_DATA_DIR")) {
    if (usable(env)) return env;
    throw EnvError(fmt::format("GPUPLAN_DATA_DIR={} has no models/ folder", env));
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error && usable(program.parent_path().parent_path() / "share/gpuplan/data")) return tried.back();
  if (usable(GPUPLAN_SOURCE_DATA_DIR)) return tried.back();
  std::string places;
  for (const fs::path& dir : tried) places += "\n  " + dir.string();
  throw EnvError("the data folder of gpuplan was not found; tried:" + places + "\nset GPUPLAN_DATA_DIR to it");
}

}  // namespace

const fs::path& data_dir() {
  static const fs::path dir = find_data_dir();
  return dir;
}

std::string read_file(const fs::path& path) {
  if (fs::is_directory(path)) throw InputError(path.string(), "is a folder, not a file");
  std::ifstream in(path, std::ios::binary);
  if (!in) throw InputError(path.string(), fmt::format("cannot be read: {}", std::strerror(errno)));
  std::ostringstream content;
  content << in.rdbuf();
  if (in.bad()) throw InputError(path.string(), "reading stopped half-way");
  return std::move(content).str();
}

void write_file_atomically(const fs::path& path, const std::string& content) {
  std::string temporary = path.string() + ".XXXXXX";
  const int file = mkstemp(temporary.data());
  const auto fail = [&](const char* what) {
    const std::string reason = std::strerror(errno);
    if (file >= 0) { close(file); unlink(temporary.c_str()); }
    throw EnvError(fmt::format("{}: {}: {}", path.string(), what, reason));
  };
  if (file < 0) fail("cannot be written");
  for (std::size_t done = 0; done < content.size();) {
    const ssize_t n = write(file, content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("writing failed");
    done += std::size_t(n);
  }
  if (fchmod(file, 0644) != 0 || fsync(file) != 0) fail("writing failed");
  if (std::rename(temporary.c_str(), path.c_str()) != 0) fail("cannot be replaced");
  close(file);
}

}  // namespace gpuplan
