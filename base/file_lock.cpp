#include "base/file_lock.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"

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

/// " by process 4711": who has the file locked, where the system tells (proc(5), locks).
std::string by_holder(int file) {
  struct stat held {};
  if (fstat(file, &held) != 0) return {};
  const std::string which = fmt::format("{:02x}:{:02x}:{}", major(held.st_dev), minor(held.st_dev), held.st_ino);
  std::istringstream locks(read_if_there("/proc/locks").value_or(""));
  for (std::string line; std::getline(locks, line);) {  // "1: FLOCK ADVISORY WRITE 4711 fe:00:10977509 0 EOF"
    std::istringstream words(line);
    std::string number, type, kind, access, process, locked;
    if (words >> number >> type >> kind >> access >> process >> locked && type == "FLOCK" && locked == which)
      return " by process " + process;
  }
  return {};
}

}  // namespace

FileLock::FileLock(std::filesystem::path path, std::string_view whose) : path_(std::move(path)) {
  for (;;) {
    file_ = open_own(path_, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW);
    if (file_ < 0) throw EnvError(fmt::format("{} cannot be opened: {}", path_.string(), std::strerror(errno)));
    const bool is_locked = try_to_lock(file_);
    if (is_locked && leads_to(path_, file_)) return;
    const int error = errno;
    const std::string holder = is_locked ? "" : by_holder(file_);
    close(std::exchange(file_, -1));
    if (is_locked) continue;
    if (error == EWOULDBLOCK) throw EnvError(fmt::format("{} is in use{}: {}", path_.string(), holder, whose));
    throw EnvError(fmt::format("{} cannot be locked: {}", path_.string(), std::strerror(error)));
  }
}

bool FileLock::is_in_place() const { return leads_to(path_, file_); }

FileLock::~FileLock() { close(file_); }

void FileLock::remove() const { unlink(path_.c_str()); }

ReservedFile::ReservedFile(const std::filesystem::path& path, std::string_view whose) {
  require_writable(path);
  if (is_written_in_place(path)) return;
  std::error_code error;
  is_made_ = !std::filesystem::exists(path, error);
  lock_.emplace(follow_links(path), whose);
}

ReservedFile::~ReservedFile() {
  struct stat status {};
  if (is_made_ && lock_ && fstat(lock_->file(), &status) == 0 && status.st_size == 0 && lock_->is_in_place())
    lock_->remove();
}

}  // namespace gpuplan
