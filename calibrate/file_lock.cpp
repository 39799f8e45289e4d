#include "calibrate/file_lock.h"

#include <cerrno>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/error.h"

namespace gpuplan {

FileLock::FileLock(const std::filesystem::path& path) : file_(open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (file_ < 0) throw EnvError(path.string() + " cannot be opened: " + std::strerror(errno));
  if (flock(file_, LOCK_EX | LOCK_NB) == 0) return;
  const int error = errno;
  close(file_);
  if (error == EWOULDBLOCK) throw EnvError(path.string() + " is in use: another calibration is running");
  throw EnvError(path.string() + " cannot be locked: " + std::strerror(error));
}

FileLock::~FileLock() { close(file_); }

}  // namespace gpuplan
