// Loaded before the C library: one call that changes files below a folder fails, or is the last that its process makes.
// Counts such calls in the order in which they are made.
//
//   GPUPLAN_FAULT_FOLDER  calls on files below it are counted
//   GPUPLAN_FAULT_AT      the call that fails, from 1; 0: none
//   GPUPLAN_FAULT_ERRNO   what it fails with; 0: the process is killed before it
//   GPUPLAN_FAULT_RANK    only in this rank of mpirun; unset: in every process
//   GPUPLAN_FAULT_LOG     gets "<number of calls> <name of the failed one>"
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

std::string variable(const char* name) {
  const char* const text = std::getenv(name);
  return text ? text : "";
}

struct Plan {
  std::string folder = variable("GPUPLAN_FAULT_FOLDER"), log = variable("GPUPLAN_FAULT_LOG"), failed = "-";
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
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

void write_log() {
  if (plan().log.empty() || !plan().is_here) return;
  static const auto fopen_of_c = real<FILE* (*)(const char*, const char*)>("fopen");
  if (FILE* const file = fopen_of_c((plan().log + "." + std::to_string(getpid())).c_str(), "w")) {
    std::fprintf(file, "%ld %s\n", plan().count.load(), plan().failed.c_str());
    std::fclose(file);
  }
}

/// Whether this call is to fail; errno is set then.
bool fails(const char* name, const char* path) {
  if (!path || plan().folder.empty() || !plan().is_here || std::strstr(path, plan().folder.c_str()) != path)
    return false;
  const long number = ++plan().count;
  if (number != plan().at) return false;
  plan().failed = name;
  write_log();
  if (plan().reason == 0) raise(SIGKILL);
  errno = plan().reason;
  return true;
}

bool fails(const char* name, int file) {
  const int before = errno;
  char path[4096];
  const ssize_t size = readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), path, sizeof path - 1);
  errno = before;
  if (size < 0) return false;
  path[size] = '\0';
  return fails(name, path);
}

[[gnu::destructor]] void end() { write_log(); }

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  static const auto next = real<int (*)(const char*, int, ...)>("open");
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? mode_t(va_arg(rest, int)) : 0;
  va_end(rest);
  return fails("open", path) ? -1 : next(path, flags, mode);
}
int mkostemp(char* path, int flags) {
  static const auto next = real<int (*)(char*, int)>("mkostemp");
  return fails("mkostemp", path) ? -1 : next(path, flags);
}
ssize_t write(int file, const void* data, size_t size) {
  static const auto next = real<ssize_t (*)(int, const void*, size_t)>("write");
  return fails("write", file) ? -1 : next(file, data, size);
}
int fsync(int file) {
  static const auto next = real<int (*)(int)>("fsync");
  return fails("fsync", file) ? -1 : next(file);
}
int fallocate(int file, int mode, off_t from, off_t size) {
  static const auto next = real<int (*)(int, int, off_t, off_t)>("fallocate");
  return fails("fallocate", file) ? -1 : next(file, mode, from, size);
}
int fchmod(int file, mode_t mode) {
  static const auto next = real<int (*)(int, mode_t)>("fchmod");
  return fails("fchmod", file) ? -1 : next(file, mode);
}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"  // struct flock
int flock(int file, int operation) {
  static const auto next = real<int (*)(int, int)>("flock");
  return fails("flock", file) ? -1 : next(file, operation);
}
#pragma GCC diagnostic pop
int rename(const char* from, const char* to) {
  static const auto next = real<int (*)(const char*, const char*)>("rename");
  return fails("rename", from) ? -1 : next(from, to);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  static const auto next = real<int (*)(int, const char*, int, const char*, unsigned)>("renameat2");
  return fails("renameat2", from) ? -1 : next(from_folder, from, to_folder, to, flags);
}
int mkdir(const char* path, mode_t mode) {
  static const auto next = real<int (*)(const char*, mode_t)>("mkdir");
  return fails("mkdir", path) ? -1 : next(path, mode);
}
int unlink(const char* path) {
  static const auto next = real<int (*)(const char*)>("unlink");
  return fails("unlink", path) ? -1 : next(path);
}
}
