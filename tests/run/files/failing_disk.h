// A disk that takes only so many bytes per file, without root: writing beyond fails with EFBIG until the object is
// gone.
#pragma once

#include <csignal>

#include <sys/resource.h>

namespace gpuplan::test {

class FailingDisk {
 public:
  explicit FailingDisk(rlim_t most_bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{most_bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FailingDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, old_handler_);
  }
  FailingDisk(const FailingDisk&) = delete;
  FailingDisk& operator=(const FailingDisk&) = delete;

 private:
  rlimit before_{};
  void (*old_handler_)(int) = nullptr;
};

}  // namespace gpuplan::test
