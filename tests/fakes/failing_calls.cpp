// Loaded before the C library: one call that changes files below a folder fails, or is the last that its process makes;
// or every one of them is recorded, for tests/run_program/power_loss. Counts such calls in the order in which they are
// made.
//
//   GPUPLAN_FAULT_FOLDER  calls on files below it are counted
//   GPUPLAN_FAULT_AT      the call that fails, from 1; 0: none
//   GPUPLAN_FAULT_ERRNO   what it fails with; 0: the process is killed before it; -1: a write takes half of its bytes;
//                         -2: the process stops before it; -3: its thread waits for ever, the others go on
//   GPUPLAN_FAULT_RANK    only in this rank of mpirun; unset: in every process
//   GPUPLAN_FAULT_LOG     gets "<number of calls> <name of the failed one>"
//   GPUPLAN_FAULT_RECORD  gets what the calls of all processes did, in one order: see `record`
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {

constexpr int kKill = 0, kShortWrite = -1, kStop = -2, kHang = -3;  // instead of an errno

std::string variable(const char* name) {
  const char* const text = std::getenv(name);
  return text ? text : "";
}

struct Plan {
  std::string folder = variable("GPUPLAN_FAULT_FOLDER"), log = variable("GPUPLAN_FAULT_LOG"), failed = "-",
              recording = variable("GPUPLAN_FAULT_RECORD");
  long at = std::atol(variable("GPUPLAN_FAULT_AT").c_str());
  int reason = std::atoi(variable("GPUPLAN_FAULT_ERRNO").c_str());
  bool is_here =
      variable("GPUPLAN_FAULT_RANK").empty() || variable("GPUPLAN_FAULT_RANK") == variable("OMPI_COMM_WORLD_RANK");
  std::atomic<long> count{0};
};

Plan& plan() {
  static Plan* const one = new Plan;  // outlives everything that still closes files
  return *one;
}

template <class Function>
Function real(const char* name, Function /*its own name, for its type*/) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}
#define GPUPLAN_REAL(name) static const auto next = real(#name, &::name)

void write_log() {
  if (plan().log.empty() || !plan().is_here) return;
  static const auto fopen_of_c = real("fopen", &::fopen);
  if (FILE* const file = fopen_of_c((plan().log + "." + std::to_string(getpid())).c_str(), "w")) {
    std::fprintf(file, "%ld %s\n", plan().count.load(), plan().failed.c_str());
    std::fclose(file);
  }
}

/// Of an open file; empty where it has none.
std::string path_of(int file) {
  const int before = errno;
  char path[4096];
  const ssize_t size = readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), path, sizeof path);
  errno = before;
  return size < 0 ? std::string() : std::string(path, std::size_t(size));
}

/// A path through an open folder (/proc/self/fd/7/file), which programs take to be sure of it, as the folder's own.
std::string own_path(const std::string& path) {
  constexpr std::size_t kNumber = sizeof "/proc/self/fd/" - 1;
  if (path.compare(0, kNumber, "/proc/self/fd/") != 0) return path;
  const std::size_t end = path.find('/', kNumber);
  const std::string folder = path_of(std::atoi(path.c_str() + kNumber));
  return end == std::string::npos ? folder : folder + path.substr(end);
}

std::string path_at(int folder, const char* path) {
  return path[0] == '/' || folder == AT_FDCWD ? own_path(path) : path_of(folder) + "/" + path;
}

bool is_below(const std::string& path) {
  const std::string& folder = plan().folder;
  return !folder.empty() && path.compare(0, folder.size(), folder) == 0;
}

/// Whether this call is to fail; errno is set then. A short write does not fail: `is_short`.
bool fails(const char* name, const std::string& path, bool* is_short = nullptr) {
  if (!plan().is_here || !is_below(path)) return false;
  const long number = ++plan().count;
  if (number != plan().at) return false;
  plan().failed = name;
  write_log();
  if (plan().reason == kKill) raise(SIGKILL);
  if (plan().reason == kStop) return raise(SIGSTOP), false;
  while (plan().reason == kHang) pause();
  if (plan().reason == kShortWrite) return is_short && (*is_short = true, false);
  errno = plan().reason;
  return true;
}

/// Alone among all processes from a call to the end of its record, so that records have the order of what they did.
class Turn {
 public:
  explicit Turn(const std::string& path) {
    if (plan().recording.empty() || !is_below(path)) return;
    static const auto open_of_c = real("open", &::open);
    static const auto flock_of_c = real("flock", static_cast<int (*)(int, int)>(&::flock));
    mutex().lock();
    static const int one = open_of_c(plan().recording.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    flock_of_c(file_ = one, LOCK_EX);
  }
  ~Turn() {
    static const auto flock_of_c = real("flock", static_cast<int (*)(int, int)>(&::flock));
    if (file_ < 0) return;
    flock_of_c(file_, LOCK_UN);
    mutex().unlock();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// A line "<call>\t<path>\t<other path>\t<offset>\t<size>", and as many bytes of data where it is a write.
  void record(const char* call, const std::string& path, const std::string& other = "", std::int64_t offset = 0,
              std::int64_t size = 0, const void* data = nullptr) const {
    if (file_ < 0) return;
    const int before = errno;
    static const auto write_of_c = real("write", &::write);
    std::string text = std::string(call) + '\t' + path + '\t' + other + '\t' + std::to_string(offset) + '\t' +
                       std::to_string(size) + '\n';
    if (data) text.append(static_cast<const char*>(data), std::size_t(size));
    if (write_of_c(file_, text.data(), text.size()) != ssize_t(text.size())) abort();
    errno = before;
  }

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  int file_ = -1;
};

/// Does a call that names a file, or fails; recorded where it succeeds.
template <class Call, class Record>
auto counted(const char* name, const std::string& path, Call call, Record record) -> decltype(call()) {
  if (fails(name, path)) return -1;
  const Turn turn(path);
  const auto result = call();
  if (result >= 0) record(turn);
  return result;
}

bool exists(const std::string& path) {
  struct stat status {};
  const int before = errno;
  const bool is_there = lstat(path.c_str(), &status) == 0;
  errno = before;
  return is_there;
}

template <class Call>
int opened(const std::string& path, int flags, Call call) {
  const bool is_new = (flags & O_CREAT) != 0 && !exists(path);
  return counted("open", path, call, [&](const Turn& turn) {
    if (is_new)
      turn.record("create", path);
    else if ((flags & O_TRUNC) != 0)
      turn.record("resize", path);
  });
}

template <class Call>
FILE* opened_stream(const std::string& path, const char* mode, Call call) {
  if (mode[0] == 'r' && !std::strchr(mode, '+')) return call();
  const bool is_new = !exists(path);
  if (fails("fopen", path)) return nullptr;
  const Turn turn(path);
  FILE* const file = call();
  if (file && is_new)
    turn.record("create", path);
  else if (file && mode[0] == 'w')
    turn.record("resize", path);
  return file;
}

/// From where a write goes on.
std::int64_t place_of(int file) {
  struct stat status {};
  if ((fcntl(file, F_GETFL) & O_APPEND) != 0) return fstat(file, &status) == 0 ? status.st_size : 0;
  return lseek(file, 0, SEEK_CUR);
}

mode_t mode_in(int flags, va_list rest) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? mode_t(va_arg(rest, int)) : 0;
}

[[gnu::destructor]] void end() { write_log(); }

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  GPUPLAN_REAL(open);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_in(flags, rest);
  va_end(rest);
  return opened(own_path(path), flags, [&] { return next(path, flags, mode); });
}
int openat(int folder, const char* path, int flags, ...) {
  GPUPLAN_REAL(openat);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_in(flags, rest);
  va_end(rest);
  return opened(path_at(folder, path), flags, [&] { return next(folder, path, flags, mode); });
}
FILE* fopen(const char* path, const char* mode) {
  GPUPLAN_REAL(fopen);
  return opened_stream(own_path(path), mode, [&] { return next(path, mode); });
}
FILE* fopen64(const char* path, const char* mode) {
  GPUPLAN_REAL(fopen64);
  return opened_stream(own_path(path), mode, [&] { return next(path, mode); });
}
int mkostemp(char* path, int flags) {
  GPUPLAN_REAL(mkostemp);
  return counted(
      "mkostemp", own_path(path), [&] { return next(path, flags); },
      [&](const Turn& turn) { turn.record("create", own_path(path)); });
}
ssize_t write(int file, const void* data, size_t size) {
  GPUPLAN_REAL(write);
  const std::string path = plan().folder.empty() ? std::string() : path_of(file);
  bool is_short = false;
  if (fails("write", path, &is_short)) return -1;
  const Turn turn(path);
  const std::int64_t place = is_below(path) ? place_of(file) : 0;
  const ssize_t written = next(file, data, is_short ? (size + 1) / 2 : size);
  if (written > 0) turn.record("write", path, "", place, written, data);
  return written;
}
ssize_t writev(int file, const iovec* parts, int count) {
  GPUPLAN_REAL(writev);
  if (plan().folder.empty() || !is_below(path_of(file))) return next(file, parts, count);
  std::string all;
  for (int i = 0; i < count; ++i) all.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  return write(file, all.data(), all.size());
}
int fsync(int file) {
  GPUPLAN_REAL(fsync);
  const std::string path = path_of(file);
  return counted(
      "fsync", path, [&] { return next(file); }, [&](const Turn& turn) { turn.record("sync", path); });
}
int ftruncate(int file, off_t size) {
  GPUPLAN_REAL(ftruncate);
  const std::string path = path_of(file);
  return counted(
      "ftruncate", path, [&] { return next(file, size); },
      [&](const Turn& turn) { turn.record("resize", path, "", 0, size); });
}
int fallocate(int file, int mode, off_t from, off_t size) {
  GPUPLAN_REAL(fallocate);
  const std::string path = path_of(file);
  return counted(
      "fallocate", path, [&] { return next(file, mode, from, size); },
      [&](const Turn& turn) { turn.record("resize", path, "", 0, from + size); });
}
int fchmod(int file, mode_t mode) {
  GPUPLAN_REAL(fchmod);
  return counted(
      "fchmod", path_of(file), [&] { return next(file, mode); }, [](const Turn&) {});
}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"  // struct flock
int flock(int file, int operation) {
  static const auto next = real("flock", static_cast<int (*)(int, int)>(&::flock));
  return fails("flock", path_of(file)) ? -1 : next(file, operation);
}
#pragma GCC diagnostic pop
int link(const char* from, const char* to) {
  GPUPLAN_REAL(link);
  return counted(
      "link", own_path(from), [&] { return next(from, to); },
      [&](const Turn& turn) { turn.record("link", own_path(from), own_path(to)); });
}
int rename(const char* from, const char* to) {
  GPUPLAN_REAL(rename);
  return counted(
      "rename", own_path(from), [&] { return next(from, to); },
      [&](const Turn& turn) { turn.record("rename", own_path(from), own_path(to)); });
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  return renameat2(from_folder, from, to_folder, to, 0);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  GPUPLAN_REAL(renameat2);
  const std::string source = path_at(from_folder, from), target = path_at(to_folder, to);
  return counted(
      "renameat2", source, [&] { return next(from_folder, from, to_folder, to, flags); },
      [&](const Turn& turn) { turn.record((flags & RENAME_EXCHANGE) != 0 ? "exchange" : "rename", source, target); });
}
int mkdir(const char* path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
int mkdirat(int folder, const char* path, mode_t mode) {
  GPUPLAN_REAL(mkdirat);
  const std::string full = path_at(folder, path);
  return counted(
      "mkdir", full, [&] { return next(folder, path, mode); }, [&](const Turn& turn) { turn.record("mkdir", full); });
}
int unlink(const char* path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char* path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int unlinkat(int folder, const char* path, int flags) {
  GPUPLAN_REAL(unlinkat);
  const std::string full = path_at(folder, path);
  return counted(
      flags == AT_REMOVEDIR ? "rmdir" : "unlink", full, [&] { return next(folder, path, flags); },
      [&](const Turn& turn) { turn.record("remove", full); });
}
int remove(const char* path) {
  GPUPLAN_REAL(remove);
  const std::string full = own_path(path);
  return counted(
      "remove", full, [&] { return next(path); }, [&](const Turn& turn) { turn.record("remove", full); });
}
}
