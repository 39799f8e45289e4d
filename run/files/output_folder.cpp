#include "run/files/output_folder.h"

#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <sstream>
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
#include "run/files/checkpoints.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

constexpr const char *kLock = ".gpuplan.lock", *kRanks = ".gpuplan.ranks";

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this host";
}

/// The content of a lock or a mark; nothing where there is none to read.
std::istringstream words_of(const fs::path& file) { return std::istringstream(read_if_there(file).value_or("")); }

/// "rank 1 (process 4711 on gpu03)", of each rank that has left a mark and may still run.
std::string marks_in(const fs::path& file) {
  std::istringstream in = words_of(file);
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

/// Names who writes to the folder, by the signature in the lock's file: "another run (process 4711 on gpu03) writes …".
std::string other_run(const fs::path& folder) {
  std::istringstream in = words_of(folder / kLock);
  std::string line;
  std::getline(in, line);
  const std::size_t process = line.find("process ");
  const std::string who =
      process == std::string::npos ? "" : fmt::format(" ({})", printable(line.substr(process, 300)));
  return fmt::format("another run{} writes to this folder; give another --output, or wait for its end", who);
}

/// Ranks of a run that was killed end with their launcher: at once, on a busy machine within seconds.
constexpr auto kPause = std::chrono::milliseconds(50);
constexpr int kTries = 100;

/// Locks the folder itself; where a file system cannot, the lock's file is left to do it. Ranks of a killed run, and a
/// child that it had just forked, hold the folder until they end.
void lock_folder(const HeldFolder& held) {
  for (int tries = 0; flock(held.file(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; ++tries) {
    if (tries == kTries) throw EnvError(fmt::format("{} is in use: {}", held.path().string(), other_run(held.path())));
    std::this_thread::sleep_for(kPause);
  }
}

/// Waits for ranks of a run whose rank 0 has ended.
void require_no_ranks_left(const fs::path& folder) {
  const fs::path path = folder / kRanks;
  const int file = open_own(path, O_RDWR | O_NOFOLLOW);
  if (file < 0 && errno == ENOENT) return;
  bool is_free = false;
  for (int tries = 0; file >= 0 && tries < kTries; ++tries, std::this_thread::sleep_for(kPause)) {
    is_free = flock(file, LOCK_EX | LOCK_NB) == 0;
    if (is_free || errno != EWOULDBLOCK) break;
  }
  const int reason = errno;
  if (is_free) unlink(path.c_str());
  if (file >= 0) close(file);
  if (is_free) return;
  if (reason != EWOULDBLOCK)
    throw EnvError(fmt::format("{}: cannot be locked: {}", path.string(), std::strerror(reason)));
  throw EnvError(fmt::format("{}: ranks of a run that has ended still write there: {}; end them, or wait",
                             folder.string(), marks_in(path)));
}

/// Makes the folder; returns false where it was there before. New names are on the disk before anything is in them:
/// what a folder holds is lost with its name, synced or not.
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
  int reason = write_all(file, std::string(4096, '\n'));
  if (reason == 0 && fsync(file) != 0) reason = errno;
  if (reason != 0) throw EnvError(fmt::format("{}: cannot be written to: {}", folder.string(), std::strerror(reason)));
}

/// Empties the lock's file, which a run that was killed may have left, and writes whose it is now.
void sign(const fs::path& folder, int file, std::int64_t run) {
  const std::string line = fmt::format("{} process {} on {}\n", run, getpid(), host_name());
  int reason = ftruncate(file, 0) == 0 ? write_all(file, line) : errno;
  if (reason == 0 && fsync(file) != 0) reason = errno;
  if (reason != 0) throw EnvError(fmt::format("{}: cannot be written to: {}", folder.string(), std::strerror(reason)));
}

void remove_temporary_files(const fs::path& folder) {
  for (const std::string& name : names_in(folder))
    if (is_temporary_name(name)) unlink((folder / name).c_str());
}

/// Removes the marks' file when no rank holds one any more.
void remove_marks(const fs::path& folder) {
  const fs::path path = folder / kRanks;
  const int file = open_own(path, O_RDWR | O_NOFOLLOW);
  if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());
  if (file >= 0) close(file);
}

}  // namespace

HeldFolder::HeldFolder(fs::path name) : name_(std::move(name)) {
  file_ = open_own(name_, O_RDONLY | O_DIRECTORY);
  if (file_ < 0) throw EnvError(fmt::format("--output {}: cannot be opened: {}", name_.string(), std::strerror(errno)));
  path_ = fmt::format("/proc/self/fd/{}", file_);
  if (leads_to(path_, file_)) return;
  close(file_);
  throw EnvError(fmt::format("--output {}: cannot be held open: /proc is not mounted", name_.string()));
}

HeldFolder::~HeldFolder() { close(file_); }

bool HeldFolder::is_same() const { return leads_to(name_, file_); }

fs::path HeldFolder::path_of(const fs::path& file) const {
  std::error_code error;
  const fs::path inside =
      fs::weakly_canonical(fs::absolute(file, error), error).lexically_relative(fs::canonical(name_, error));
  return error || inside.empty() || *inside.begin() == ".." ? file : path_ / inside;
}

void HeldFolder::require_same() const {
  if (is_same()) return;
  throw EnvError(fmt::format("--output {}: is no longer the folder that this run began in; nothing more is written",
                             name_.string()));
}

std::string HeldFolder::with_name(std::string text) const {
  const std::string path = path_.string(), name = name_.string();
  for (std::size_t at = 0; (at = text.find(path, at)) != std::string::npos;) {
    const bool is_longer_number = at + path.size() < text.size() && std::isdigit(text[at + path.size()]) != 0;
    if (!is_longer_number) text.replace(at, path.size(), name);
    at += is_longer_number ? path.size() : name.size();
  }
  return text;
}

void HeldFolder::rethrow_named() const {
  try {
    throw;
  } catch (const InputError& error) {
    throw InputError(with_name(error.where()), with_name(error.problem()), with_name(error.hint()));
  } catch (const PeerFailed& error) { throw PeerFailed(with_name(error.what())); } catch (const EnvError& error) {
    throw EnvError(with_name(error.what()));
  } catch (const fs::filesystem_error& error) { throw EnvError(with_name(error.what())); }
}

OutputFolder::OutputFolder(fs::path path, std::int64_t run) : path_(std::move(path)), is_made_(make_folder(path_)) {
  held_.emplace(path_);
  const fs::path& folder = held_->path();
  try {
    lock_folder(*held_);
    lock_.emplace(folder / kLock, other_run(folder));
    require_no_ranks_left(folder);
    prove_writable(folder, lock_->file());
    sign(folder, lock_->file(), run);
    remove_temporary_files(folder);
  } catch (...) {
    if (lock_) lock_->remove();
    remove_if_made();
    held_->rethrow_named();
  }
}

void OutputFolder::require_locked() const {
  if (lock_->is_in_place()) return;
  throw EnvError(fmt::format("--output {}: its {} was removed while this run held it; another run may have begun there",
                             path_.string(), kLock));
}

OutputFolder::~OutputFolder() {
  remove_marks(held_->path());
  if (lock_->is_in_place()) lock_->remove();
  lock_.reset();
  remove_if_made();
}

void OutputFolder::remove_if_made() const {
  if (is_made_ && held_->is_same()) rmdir(path_.c_str());  // fails where something is in it
}

std::optional<std::int64_t> run_that_holds(const fs::path& folder) {
  if (!is_there(folder / kLock)) return std::nullopt;
  try {
    std::istringstream in(read_file(folder / kLock));
    std::int64_t run = 0;
    return in >> run ? std::optional(run) : std::nullopt;
  } catch (const InputError& error) { throw EnvError(error.what()); }  // gone since
}

RankMark::RankMark(const fs::path& folder, std::int64_t rank) {
  const fs::path path = folder / kRanks;
  do {
    if (file_ >= 0) close(file_);
    file_ = open_own(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW);
    const std::string line = fmt::format("rank {} (process {} on {})\n", rank, getpid(), host_name());
    int reason = file_ < 0 || flock(file_, LOCK_SH) != 0 ? errno : 0;
    if (reason == 0) reason = write_all(file_, line);
    if (reason != 0) {
      if (file_ >= 0) close(file_);
      throw EnvError(fmt::format("{}: cannot be written: {}", path.string(), std::strerror(reason)));
    }
  } while (!leads_to(path, file_));
}

RankMark::~RankMark() { close(file_); }

}  // namespace gpuplan
