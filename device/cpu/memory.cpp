#include "device/cpu/memory.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/unit_text.h"

namespace gpuplan {
namespace {

/// The number after a name, in a file of such lines; 0 when it is not there.
std::int64_t named_number(const char* path, std::string_view wanted) {
  std::ifstream file(path);
  std::string name, rest;
  for (std::int64_t number = 0; file >> name >> number; std::getline(file, rest))
    if (name == wanted) return number;
  return 0;
}

/// A line of /proc/meminfo, in kB there.
Bytes meminfo(std::string_view wanted) { return {named_number("/proc/meminfo", wanted) << 10}; }

/// A number in a file of the control group (version 2); "max" and a missing file are no limit.
std::int64_t group_value(const char* file) {
  std::ifstream in(std::string("/sys/fs/cgroup/") + file);
  std::int64_t value = 0;
  return in >> value ? value : std::numeric_limits<std::int64_t>::max();
}

EnvError out_of_memory(Bytes size) {
  return EnvError(fmt::format("out of memory: {} asked of the host, {} free", format_bytes(size),
                              format_bytes(free_host_memory())));
}

/// Linux promises more than it has and ends the process later: large amounts are compared with what is free.
void check_free(Bytes size) {
  constexpr Bytes kLarge{64 << 20};
  if (size > kLarge && size > free_host_memory()) throw out_of_memory(size);
}

}  // namespace

Bytes total_host_memory() { return {std::min(meminfo("MemTotal:").count, group_value("memory.max"))}; }

Bytes free_host_memory() {
  const std::int64_t limit = group_value("memory.max");
  const Bytes available = meminfo("MemAvailable:");
  if (limit == std::numeric_limits<std::int64_t>::max()) return available;
  const std::int64_t cached =
      named_number("/sys/fs/cgroup/memory.stat", "inactive_file");  // counted as used, dropped when asked for
  return {std::max<std::int64_t>(0, std::min(available.count, limit - group_value("memory.current") + cached))};
}

Buffer host_memory(Bytes size) {
  constexpr std::int64_t kHugePage = 2 << 20;
  GPUPLAN_CHECK(size.count >= 0, "a negative amount of memory was asked for");
  check_free(size);
  const std::int64_t alignment = size.count >= 2 * kHugePage ? kHugePage : kAlignment;
  void* data = nullptr;
  if (posix_memalign(&data, std::size_t(alignment), std::size_t(std::max<std::int64_t>(size.count, 1))) != 0)
    throw out_of_memory(size);
  // fewer TLB misses; no harm when refused. Whole pages alone: the last one would take 2 MiB for a byte
  if (alignment == kHugePage) madvise(data, std::size_t(size.count / kHugePage * kHugePage), MADV_HUGEPAGE);
  return {data, size, std::shared_ptr<void>(data, std::free)};
}

}  // namespace gpuplan
