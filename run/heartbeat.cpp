#include "run/heartbeat.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/unit_text.h"

namespace gpuplan {
namespace {

constexpr auto kTick = std::chrono::milliseconds(500);

std::atomic<Beat*> own_beat{nullptr};

std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

/// The file, mapped for as long as this lives.
class BeatFile {
 public:
  static std::size_t size_for(std::int64_t num_ranks) {
    return sizeof(FirstWord) + std::size_t(num_ranks) * sizeof(Beat);
  }
  /// Null when it cannot be mapped, or is too short.
  static std::shared_ptr<BeatFile> open(const std::filesystem::path& path, std::int64_t num_ranks) {
    const int file = open_own(path, O_RDWR);
    if (file < 0) return nullptr;
    struct stat status {};
    const bool is_whole = fstat(file, &status) == 0 && status.st_size >= off_t(size_for(num_ranks));
    void* const memory =
        is_whole ? mmap(nullptr, size_for(num_ranks), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    close(file);
    return memory == MAP_FAILED ? nullptr : std::shared_ptr<BeatFile>(new BeatFile(memory, size_for(num_ranks)));
  }
  ~BeatFile() { munmap(memory_, size_); }
  BeatFile(const BeatFile&) = delete;
  BeatFile& operator=(const BeatFile&) = delete;

  FirstWord& first_word() { return *static_cast<FirstWord*>(memory_); }
  Beat& beat(std::int64_t rank) {
    return reinterpret_cast<Beat*>(static_cast<std::byte*>(memory_) + sizeof(FirstWord))[rank];
  }

 private:
  BeatFile(void* memory, std::size_t size) : memory_(memory), size_(size) {}
  void* memory_;
  std::size_t size_;
};

std::string describe_scarce_shared_memory(std::int64_t num_ranks) {
  constexpr Bytes kPerRank{std::int64_t{9} << 19};  // Open MPI's vader: a segment of 4 MiB, and 5 % that must stay free
  const std::filesystem::path folder = shared_memory_folder();
  struct statvfs status {};
  if (statvfs(folder.c_str(), &status) != 0) return {};
  const auto bytes = [&](auto blocks) { return Bytes{std::int64_t(blocks) * std::int64_t(status.f_frsize)}; };
  const Bytes free = bytes(status.f_bavail), needed{num_ranks * kPerRank.count};
  if (free >= needed) return {};
  return fmt::format(
      "{} has {} free of {}, and {} ranks share up to {} there: remove files that nobody uses, or make it larger "
      "(mount -o remount,size=1G {}; docker run --shm-size=1g)",
      folder.string(), format_bytes(free), format_bytes(bytes(status.f_blocks)), num_ranks, format_bytes(needed),
      folder.string());
}

std::optional<bool> has_first_word(std::int64_t rank) {
  const auto path = variable(kHeartbeatVariable);
  const auto file = path ? BeatFile::open(*path, rank + 1) : nullptr;
  if (!file) return {};
  std::int64_t first = 0;
  return file->first_word().rank.compare_exchange_strong(first, rank + 1) || first == rank + 1;
}

Heartbeat::Heartbeat(std::int64_t rank) {
  const auto path = variable(kHeartbeatVariable);
  if (path) file_ = BeatFile::open(*path, rank + 1);
  if (!file_) return;
  supervisor_ = open_own(*path, O_RDWR);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // at once; the look at the lock also finds one that ended before this line
  mine_ = &file_->beat(rank);
  mine_->process = getpid();
  mine_->nanoseconds = now();
  own_beat = mine_;
  ticker_ = std::thread([this] {
    for (; !ends_; std::this_thread::sleep_for(kTick)) {
      end_with_supervisor();
      mine_->nanoseconds = now();
    }
    mine_->nanoseconds = 0;  // gone in peace
  });
}

Heartbeat::~Heartbeat() {
  if (!mine_) return;
  ends_ = true;
  ticker_.join();
  own_beat = nullptr;
  if (supervisor_ >= 0) close(supervisor_);
}

/// The supervisor holds the file locked: a rank that gets the lock has lost it.
void Heartbeat::end_with_supervisor() const {
  if (supervisor_ >= 0 && flock(supervisor_, LOCK_EX | LOCK_NB) == 0) std::_Exit(kWorldFailed);
}

void Heartbeat::beat(std::int64_t step) {
  if (mine_) mine_->step = step;
}

void note_signal() noexcept {
  if (Beat* const mine = own_beat) mine->was_signalled = 1;
}

Seconds StepWatch::median() const {
  std::vector<double> sorted = seconds_;
  std::ranges::sort(sorted);
  return {sorted.empty() ? 0 : sorted[sorted.size() / 2]};
}

std::string StepWatch::look(std::int64_t step, Seconds now) {
  constexpr std::size_t kLatest = 101;
  if (step != step_) {
    if (step_ && step > 0 && *step_ > 0) seconds_.push_back(now.value - since_.value);
    if (seconds_.size() > kLatest) seconds_.erase(seconds_.begin());
    step_ = step, since_ = now;
    return {};
  }
  const double waited = now.value - since_.value;
  const bool has_pace = step > 0 && !seconds_.empty();
  const double patience = has_pace ? std::max(least_.value, kMedians * median().value) : kLong.value;
  if (step == 0 || waited < patience) return {};
  if (step < 0) return fmt::format("the checkpoint after step {} has not been finished for {:.0f} s", -step, waited);
  const std::string before = has_pace ? ", and the steps before took " + format_duration(median()) : "";
  return fmt::format("step {} has not ended for {:.0f} s{}", step, waited, before);
}

namespace {

Seconds step_patience() {
  constexpr std::int64_t kLeast = 1, kMost = 30 * 24 * 3600;
  const auto given = variable(kStepPatienceVariable);
  return given ? Seconds{double(parse_integer(*given, kStepPatienceVariable, kLeast, kMost))} : Seconds{600};
}

}  // namespace

HeartbeatFile::HeartbeatFile(std::int64_t num_ranks)
    : folder_(shared_memory_folder()),
      path_(folder_.path() / "heartbeat"),
      made_(now()),
      num_ranks_(num_ranks),
      patience_(step_patience()),
      watch_(patience_) {
  const auto size = off_t(BeatFile::size_for(num_ranks));
  lock_ = open_own(path_, O_RDWR | O_CREAT | O_EXCL, 0600);
  // Room is reserved: without it the first beat would end the process (SIGBUS).
  int reason = lock_ < 0 || flock(lock_, LOCK_SH) != 0 ? errno : posix_fallocate(lock_, 0, size);
  if (reason == 0 && !(file_ = BeatFile::open(path_, num_ranks))) reason = errno;
  if (reason == 0) return;
  if (lock_ >= 0) close(lock_);
  const std::string advice = describe_scarce_shared_memory(num_ranks);
  throw EnvError(fmt::format("{}: {}", path_.string(), std::strerror(reason)) + (advice.empty() ? "" : "; " + advice));
}

HeartbeatFile::~HeartbeatFile() { close(lock_); }

std::string HeartbeatFile::silent_rank(Seconds patience, Seconds start) const {
  for (std::int64_t r = 0; r < num_ranks_; ++r) {
    const Beat& beat = file_->beat(r);
    const std::int64_t last = beat.nanoseconds;
    const double silent = 1e-9 * double(now() - last);
    if (last != 0 && silent > patience.value)
      return fmt::format("rank {} (process {}) has not answered for {:.0f} s, in step {}", r, beat.process.load(),
                         silent, std::abs(beat.step.load()));
    if (beat.process == 0 && 1e-9 * double(now() - made_) > start.value)
      return fmt::format("rank {} has not begun within {:.0f} s", r, start.value);
  }
  return {};
}

std::string HeartbeatFile::without_progress() {
  constexpr Seconds kStopped{5};  // between two questions: the machine was suspended, and the ranks with us
  const Seconds at{1e-9 * double(now() - made_)};
  if (at.value - asked_.value > kStopped.value) watch_ = StepWatch(patience_);
  asked_ = at;
  std::int64_t lowest = file_->beat(0).step;
  for (std::int64_t r = 1; r < num_ranks_; ++r) {
    const std::int64_t step = file_->beat(r).step;
    if (std::abs(step) < std::abs(lowest)) lowest = step;
  }
  return watch_.look(lowest, at);
}

std::string HeartbeatFile::killed_rank() const {
  std::string found;
  for (std::int64_t r = 0; r < num_ranks_; ++r) {
    const Beat& beat = file_->beat(r);
    if (beat.process == 0 || beat.nanoseconds == 0 || beat.was_signalled != 0) continue;
    if (!found.empty()) return "a rank";
    found = fmt::format("rank {} (process {})", r, beat.process.load());
  }
  return found.empty() ? "a rank" : found;
}

}  // namespace gpuplan
