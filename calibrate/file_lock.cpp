#include "calibrate/file_lock.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/error.h"

namespace gpuplan {
namespace {

/// For a second at most: a child that a killed calibration had just forked holds its files until it becomes another
/// program.
bool try_to_lock(int file) {
  using namespace std::chrono_literals;
  for (int tries = 0; flock(file, LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (errno != EWOULDBLOCK || tries == 20) return false;
    std::this_thread::sleep_for(50ms);
  }
  return true;
}

}  // namespace

FileLock::FileLock(const std::filesystem::path& path)
    : file_(open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (file_ < 0) throw EnvError(path.string() + " cannot be opened: " + std::strerror(errno));
  if (try_to_lock(file_)) return;
  const int error = errno;
  close(file_);
  if (error == EWOULDBLOCK) throw EnvError(path.string() + " is in use: another calibration is running");
  throw EnvError(path.string() + " cannot be locked: " + std::strerror(error));
}

FileLock::~FileLock() { close(file_); }

}  // namespace gpuplan
