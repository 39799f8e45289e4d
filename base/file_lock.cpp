#include "base/file_lock.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"

namespace gpuplan {
namespace {

/// For a second at most: a child that a killed process had just forked holds its files until it becomes another
/// program.
bool try_to_lock(int file) {
  using namespace std::chrono_literals;
  for (int tries = 0; flock(file, LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (errno != EWOULDBLOCK || tries == 20) return false;
    std::this_thread::sleep_for(50ms);
  }
  return true;
}

/// Whether the file still has its name: who held it before may have removed it.
bool is_named(int file, const std::filesystem::path& path) {
  struct stat held {
  }, named{};
  return fstat(file, &held) == 0 && lstat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
         held.st_dev == named.st_dev;
}

}  // namespace

FileLock::FileLock(std::filesystem::path path, std::string_view whose) : path_(std::move(path)) {
  for (;;) {
    file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file_ < 0) throw EnvError(fmt::format("{} cannot be opened: {}", path_.string(), std::strerror(errno)));
    const bool is_locked = try_to_lock(file_);
    if (is_locked && is_named(file_, path_)) return;
    const int error = errno;
    close(std::exchange(file_, -1));
    if (is_locked) continue;
    if (error == EWOULDBLOCK) throw EnvError(fmt::format("{} is in use: {}", path_.string(), whose));
    throw EnvError(fmt::format("{} cannot be locked: {}", path_.string(), std::strerror(error)));
  }
}

bool FileLock::is_in_place() const { return is_named(file_, path_); }

FileLock::~FileLock() { close(file_); }

void FileLock::remove() const { unlink(path_.c_str()); }

}  // namespace gpuplan
