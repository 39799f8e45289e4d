#include "rows/file_access.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/unit_text.h"

namespace gpuplan {
namespace {

constexpr std::size_t kLargestWrite = std::size_t(1) << 30;  // bytes; Linux takes at most 2 GiB less a page at once

bool means_full(int reason) { return reason == ENOSPC || reason == EDQUOT || reason == EFBIG; }

/// Bytes that this user may still write beside `path`; -1 when the system does not tell.
std::int64_t free_bytes(const std::filesystem::path& path) {
  struct statvfs status {};
  if (statvfs(path.parent_path().empty() ? "." : path.parent_path().c_str(), &status) != 0) return -1;
  return std::int64_t(status.f_bavail) * std::int64_t(status.f_frsize);
}

/// Room for the whole file now, so that a full disk is known before hours of writing. 0, or the errno.
int reserve(int file, std::int64_t bytes, std::int64_t free) {
  if (bytes == 0 || fallocate(file, 0, 0, bytes) == 0) return 0;
  if (means_full(errno)) return errno;
  return free >= 0 && bytes > free ? ENOSPC : 0;  // a file system that cannot reserve
}

// A touched page brings its neighbours: at least 64 KiB (fault-around), at most what one entry of a page directory
// maps.
constexpr std::uintptr_t kAround = std::uintptr_t(2) << 20;

/// Place of a mapped file, for a handler that may call almost nothing.
struct MappedRange {
  std::atomic<std::uintptr_t> begin{0}, end{0};  // 0: free
  std::array<char, 512> name{};
};
std::array<MappedRange, 256> mapped_ranges;  // those beyond are named "a mapped file"

MappedRange* note_mapping(const void* start, std::size_t size, const std::filesystem::path& file) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const auto range = std::ranges::find_if(mapped_ranges, [](const MappedRange& r) { return r.begin == 0; });
  if (range == mapped_ranges.end()) return nullptr;
  const std::string name = file.string().substr(0, range->name.size() - 1);
  std::ranges::copy(name, range->name.begin());
  range->name[name.size()] = '\0';
  range->end = std::uintptr_t(start) + size;
  range->begin = std::uintptr_t(start);
  return &*range;
}

[[noreturn]] void end_at_bus_error(int, siginfo_t* info, void*) {
  const auto at = std::uintptr_t(info->si_addr);
  std::string_view name = "a mapped file";
  for (const MappedRange& range : mapped_ranges)
    if (range.begin != 0 && at >= range.begin && at < range.end) name = range.name.data();
  say_to_stderr("gpuplan: ");
  say_to_stderr(name);
  say_to_stderr(": cannot be read any more: it was cut off while it was in use, or its disk failed\n");
  _exit(kWorldFailed);
}

/// Once, and not where a sanitizer or a debugger has a handler of its own.
void name_files_of_bus_errors() {
  struct sigaction before {};
  if (sigaction(SIGBUS, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) return;
  struct sigaction named {};
  named.sa_sigaction = end_at_bus_error;
  named.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &named, nullptr);
}

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& why) {
  throw InputError(file.string(), "cannot be read: " + why);
}

}  // namespace

NewFile::NewFile(std::filesystem::path path, std::int64_t bytes) : path_(std::move(path)), bytes_(bytes) {
  file_ = open_temporary(path_, temporary_);
  if (file_ < 0) fail("cannot be written", errno);
  const int reason = give_mode_of(path_, file_) ? reserve(file_, bytes_, free_bytes(path_)) : errno;
  if (reason == 0) return;
  close(file_);
  unlink(temporary_.c_str());
  fail("cannot be written", reason);
}

NewFile::~NewFile() {
  if (file_ >= 0) close(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file_, bytes.data(), std::min(bytes.size(), kLargestWrite));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("writing failed", n < 0 ? errno : EIO);
    bytes = bytes.subspan(std::size_t(n));
  }
}

void NewFile::sync() {
  if (fsync(file_) != 0) fail("writing failed", errno);
  if (close(std::exchange(file_, -1)) != 0) fail("writing failed", errno);
}

void NewFile::publish() {
  GPUPLAN_CHECK(file_ < 0, "a file is synced before it gets its name");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be replaced", errno);
  temporary_.clear();
}

void NewFile::fail(const char* what, int reason) const {
  std::string text = fmt::format("{}: {}: {}", path_.string(), what, std::strerror(reason));
  if (const std::int64_t free = free_bytes(path_); means_full(reason) && free >= 0)
    text += fmt::format("; it needs {}, and {} are free there", format_bytes({bytes_}), format_bytes({free}));
  throw EnvError(text);
}

void sync_path(const std::filesystem::path& path) {
  const int file = open_own(path, O_RDONLY);
  const int reason = file < 0 || fsync(file) != 0 ? errno : 0;
  if (file >= 0) close(file);
  if (reason != 0)
    throw EnvError(fmt::format("{}: cannot be synced to the disk: {}", path.string(), std::strerror(reason)));
}

FileMapping::FileMapping(const std::filesystem::path& file) {
  const InputFile input(file);
  const auto size = std::size_t(input.size());
  if (size == 0) return;  // nothing to map
  if (input.content()) {
    bytes_ = std::as_bytes(std::span(*input.content()));
    return;
  }
  void* const start = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, input.descriptor(), 0);
  if (start == MAP_FAILED) fail(file, std::strerror(errno));
  name_files_of_bus_errors();
  MappedRange* const range = note_mapping(start, size, file);
  keeper_ = std::shared_ptr<void>(start, [size, range](void* at) {
    if (range) range->begin = 0;
    munmap(at, size);
  });
  bytes_ = {static_cast<const std::byte*>(start), size};
}

void FileMapping::forget(std::span<const std::byte> part) const {
  if (part.empty()) return;
  const auto start = std::uintptr_t(bytes_.data());
  const std::uintptr_t begin = std::uintptr_t(part.data()) & ~(kAround - 1);
  const std::uintptr_t end = (std::uintptr_t(part.data()) + part.size() + kAround - 1) & ~(kAround - 1);
  const std::uintptr_t from = std::max(begin, start), to = std::min(end, start + bytes_.size());
  madvise(const_cast<std::byte*>(bytes_.data()) + (from - start), to - from, MADV_DONTNEED);  // advice: may fail
}

}  // namespace gpuplan
