#include "run/files/output_folder.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/utf8.h"
#include "rows/file_access.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

constexpr const char *kLock = ".gpuplan.lock", *kRanks = ".gpuplan.ranks";

bool is_same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this host";
}

/// "rank 1 (process 4711 on gpu03)", of each rank that has left a mark and may still run.
std::string marks_in(const fs::path& file) {
  std::ifstream in(file);
  std::string all;
  for (std::string line; std::getline(in, line);) {
    long process = 0;
    const auto at = line.find("(process ");
    const bool is_here = at != std::string::npos && line.ends_with(" on " + host_name() + ")") &&
                         std::sscanf(line.c_str() + at, "(process %ld", &process) == 1;
    if (is_here && kill(pid_t(process), 0) != 0 && errno == ESRCH) continue;
    all += (all.empty() ? "" : ", ") + line;
  }
  return printable(all.substr(0, 1000));
}

/// Waits for ranks of a run whose rank 0 has ended. They end with their launcher, within a second.
void require_no_ranks_left(const fs::path& folder) {
  constexpr auto kPause = std::chrono::milliseconds(100);
  const fs::path path = folder / kRanks;
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0 && errno == ENOENT) return;
  bool is_free = false;
  for (int tries = 0; file >= 0 && tries < 50; ++tries, std::this_thread::sleep_for(kPause)) {
    is_free = flock(file, LOCK_EX | LOCK_NB) == 0;
    if (is_free || errno != EWOULDBLOCK) break;
  }
  const int reason = errno;
  if (is_free) unlink(path.c_str());
  if (file >= 0) close(file);
  if (is_free) return;
  if (reason != EWOULDBLOCK)
    throw EnvError(fmt::format("{}: cannot be locked: {}", path.string(), std::strerror(reason)));
  throw EnvError(fmt::format("--output {}: ranks of a run that has ended still write there: {}; end them, or wait",
                             folder.string(), marks_in(path)));
}

/// Whether the folder was not there before. New names are on the disk before anything is in them: what a folder holds
/// is lost with its name, synced or not.
bool make_folder(const fs::path& path) {
  std::error_code error;
  std::vector<fs::path> missing;
  const fs::path named = path.has_filename() ? path : path.parent_path();
  for (fs::path above = fs::absolute(named, error); !fs::exists(above, error) && above.has_relative_path();
       above = above.parent_path())
    missing.push_back(above);
  const bool is_made = fs::create_directories(path, error);
  if (!error && !fs::is_directory(path, error)) error = std::make_error_code(std::errc::not_a_directory);
  if (error) throw EnvError(fmt::format("--output {}: cannot be made: {}", path.string(), error.message()));
  for (const fs::path& folder : missing) sync_path(folder.parent_path());
  return is_made;
}

/// A page of data to the disk: permissions are known before, room is not.
void prove_writable(const fs::path& folder, int file) {
  const std::string page(4096, '\n');
  ssize_t written = 0, left = std::ssize(page);
  while (left > 0 && (written = write(file, page.data(), std::size_t(left))) > 0) left -= written;
  if (left == 0 && fsync(file) == 0) return;
  throw EnvError(
      fmt::format("--output {}: cannot be written to: {}", folder.string(), std::strerror(written == 0 ? EIO : errno)));
}

/// Empties the lock's file, which a run that was killed may have left, and writes whose it is now.
void sign(const fs::path& folder, int file, std::int64_t run) {
  const std::string line = fmt::format("{} process {} on {}\n", run, getpid(), host_name());
  if (ftruncate(file, 0) == 0 && write(file, line.data(), line.size()) == std::ssize(line) && fsync(file) == 0) return;
  throw EnvError(fmt::format("--output {}: cannot be written to: {}", folder.string(), std::strerror(errno)));
}

void remove_temporary_files(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> leftovers;
  for (const auto& item : fs::directory_iterator(folder, error))
    if (is_temporary_name(item.path().filename().string())) leftovers.push_back(item.path());
  for (const fs::path& file : leftovers) unlink(file.c_str());
}

/// Removes the marks' file when no rank holds one any more.
void remove_marks(const fs::path& folder) {
  const fs::path path = folder / kRanks;
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());
  if (file >= 0) close(file);
}

}  // namespace

HeldFolder::HeldFolder(fs::path path) : path_(std::move(path)) {
  file_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat held {};
  if (file_ < 0 || fstat(file_, &held) != 0)
    throw EnvError(fmt::format("--output {}: cannot be opened: {}", path_.string(), std::strerror(errno)));
  device_ = held.st_dev, inode_ = held.st_ino;
}

HeldFolder::~HeldFolder() { close(file_); }

void HeldFolder::require_same() const {
  struct stat named {};
  if (stat(path_.c_str(), &named) == 0 && named.st_dev == device_ && named.st_ino == inode_) return;
  throw EnvError(fmt::format("--output {}: is no longer the folder that this run began in; nothing more is written",
                             path_.string()));
}

OutputFolder::OutputFolder(fs::path path, std::int64_t run) : path_(std::move(path)), is_made_(make_folder(path_)) {
  try {
    lock_.emplace(path_ / kLock, "another run writes to this folder; give another --output, or wait for its end");
    require_no_ranks_left(path_);
    prove_writable(path_, lock_->file());
    sign(path_, lock_->file(), run);
  } catch (const EnvError&) {
    if (lock_) lock_->remove();
    throw;
  }
  remove_temporary_files(path_);
}

void OutputFolder::require_locked() const {
  if (lock_->is_in_place()) return;
  throw EnvError(fmt::format("--output {}: its {} was removed while this run held it; another run may have begun there",
                             path_.string(), kLock));
}

OutputFolder::~OutputFolder() {
  remove_marks(path_);
  if (lock_->is_in_place()) lock_->remove();
  lock_.reset();
  if (is_made_) rmdir(path_.c_str());  // fails where something is in it
}

std::optional<std::int64_t> run_that_holds(const fs::path& folder) {
  std::ifstream in(folder / kLock);
  std::int64_t run = 0;
  return in >> run ? std::optional(run) : std::nullopt;
}

RankMark::RankMark(const fs::path& folder, std::int64_t rank) {
  const fs::path path = folder / kRanks;
  struct stat held {
  }, named{};
  do {
    if (file_ >= 0) close(file_);
    file_ = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
    const std::string line = fmt::format("rank {} (process {} on {})\n", rank, getpid(), host_name());
    if (file_ < 0 || flock(file_, LOCK_SH) != 0 || write(file_, line.data(), line.size()) != std::ssize(line))
      throw EnvError(fmt::format("{}: cannot be written: {}", path.string(), std::strerror(errno)));
  } while (fstat(file_, &held) == 0 && (lstat(path.c_str(), &named) != 0 || !is_same_file(held, named)));
}

RankMark::~RankMark() { close(file_); }

}  // namespace gpuplan
