#include "base/own_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

// Nobody gives such a name to a folder of his own: "gpuplan-output" would be a likely one.
constexpr std::string_view kOwnPrefix = ".gpuplan-process-", kOwnEnding = "XXXXXX";  // of mkdtemp

bool has_our_name(const std::string& name) {
  return name.starts_with(kOwnPrefix) && name.size() == kOwnPrefix.size() + kOwnEnding.size();
}

void remove_those_of_the_dead(const fs::path& in) {
  std::error_code ignored;
  for (const std::string& name : names_in(in)) {
    if (!has_our_name(name)) continue;
    const fs::path path = in / name;
    const int file = open_own(path, O_RDONLY | O_NOFOLLOW | O_DIRECTORY);
    struct stat status {};
    const bool is_ours =
        file >= 0 && fstat(file, &status) == 0 && status.st_uid == geteuid() && (status.st_mode & 0777) == S_IRWXU;
    if (is_ours && flock(file, LOCK_EX | LOCK_NB) == 0) fs::remove_all(path, ignored);
    if (file >= 0) close(file);
  }
}

}  // namespace

OwnFolder::OwnFolder(const fs::path& in) {
  remove_those_of_the_dead(in);
  do {
    if (lock_ >= 0) close(lock_);
    std::string path = in / (std::string(kOwnPrefix) + std::string(kOwnEnding));
    const bool is_made = mkdtemp(path.data()) != nullptr;
    path_ = path;
    lock_ = is_made ? open_own(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW) : -1;
    if (!is_made || (lock_ < 0 && errno != ENOENT))
      throw EnvError(fmt::format("{}: no folder can be made there: {}", in.string(), std::strerror(errno)));
    // Another process may have taken it for a dead one's.
  } while (lock_ < 0 || flock(lock_, LOCK_SH) != 0 || !leads_to(path_, lock_));
}

OwnFolder::~OwnFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  close(lock_);
}

fs::path temporary_folder() {
  std::error_code error;
  fs::path folder = fs::temp_directory_path(error);
  if (error) throw EnvError(fmt::format("TMPDIR: there is no folder for temporary files: {}", error.message()));
  return folder;
}

fs::path shared_memory_folder() {
  std::error_code none;
  return fs::is_directory("/dev/shm", none) ? fs::path("/dev/shm") : temporary_folder();
}

}  // namespace gpuplan
