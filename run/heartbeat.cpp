#include "run/heartbeat.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"

namespace gpuplan {
namespace {

constexpr auto kTick = std::chrono::milliseconds(500);

std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

/// Null when it cannot be mapped.
Beat* map_beats(const std::filesystem::path& path, std::int64_t num_ranks) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* const memory = mmap(nullptr, std::size_t(num_ranks) * sizeof(Beat), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<Beat*>(memory);
}

}  // namespace

Heartbeat::Heartbeat(std::int64_t rank) {
  const char* const path = std::getenv(kHeartbeatVariable);
  if (!path) return;
  Beat* const beats = map_beats(path, rank + 1);
  if (!beats) return;
  mine_ = beats + rank;
  mine_->process = getpid();
  mine_->nanoseconds = now();
  ticker_ = std::thread([this] {
    for (; !ends_; std::this_thread::sleep_for(kTick)) mine_->nanoseconds = now();
    mine_->nanoseconds = 0;  // gone in peace
  });
}

Heartbeat::~Heartbeat() {
  if (!mine_) return;
  ends_ = true;
  ticker_.join();
}

void Heartbeat::beat(std::int64_t step) {
  if (mine_) mine_->step = step;
}

HeartbeatFile::HeartbeatFile(std::int64_t num_ranks) : num_ranks_(num_ranks) {
  std::error_code ignored;
  const bool has_shm = std::filesystem::is_directory("/dev/shm", ignored);
  path_ = (has_shm ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path()) / fmt::format("gpuplan-{}", getpid());
  const int file = open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, off_t(std::size_t(num_ranks) * sizeof(Beat))) != 0)
    throw EnvError(fmt::format("cannot make {}: {}", path_.string(), std::strerror(errno)));
  close(file);
  beats_ = map_beats(path_, num_ranks);
  if (!beats_) throw EnvError(fmt::format("cannot map {}", path_.string()));
}

HeartbeatFile::~HeartbeatFile() {
  if (beats_) munmap(beats_, std::size_t(num_ranks_) * sizeof(Beat));
  unlink(path_.c_str());
}

std::string HeartbeatFile::silent_rank(Seconds patience) const {
  for (std::int64_t r = 0; r < num_ranks_; ++r) {
    const std::int64_t last = beats_[r].nanoseconds;
    const double silent = 1e-9 * double(now() - last);
    if (last != 0 && silent > patience.value)
      return fmt::format("rank {} (process {}) has not answered for {:.0f} s, in step {}", r, beats_[r].process.load(), silent, beats_[r].step.load());
  }
  return {};
}

}  // namespace gpuplan
