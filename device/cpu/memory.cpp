#include "device/cpu/memory.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

#include <fmt/format.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/unit_text.h"

namespace gpuplan {
namespace {

/// A line of /proc/meminfo, in kB there; 0 when it is not there.
Bytes meminfo(const std::string& wanted) {
  std::ifstream file("/proc/meminfo");
  std::string name, rest;
  for (std::int64_t kilobytes = 0; file >> name >> kilobytes; std::getline(file, rest))
    if (name == wanted) return {kilobytes << 10};
  return {};
}

/// A number in a file of the control group (version 2); "max" and a missing file are no limit.
std::int64_t group_value(const char* file) {
  std::ifstream in(std::string("/sys/fs/cgroup/") + file);
  std::int64_t value = 0;
  return in >> value ? value : std::numeric_limits<std::int64_t>::max();
}

EnvError out_of_memory(Bytes size) {
  return EnvError(fmt::format("out of memory: {} asked of the host, {} free", format_bytes(size), format_bytes(free_host_memory())));
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
  return {std::max<std::int64_t>(0, std::min(available.count, limit - group_value("memory.current")))};
}

Buffer host_memory(Bytes size) {
  constexpr std::int64_t kAlignment = 256, kHugePage = 2 << 20;
  GPUPLAN_CHECK(size.count >= 0, "a negative amount of memory was asked for");
  check_free(size);
  const std::int64_t alignment = size.count >= 2 * kHugePage ? kHugePage : kAlignment;
  const auto rounded = std::size_t(ceil_div(std::max<std::int64_t>(size.count, 1), alignment) * alignment);
  void* const data = std::aligned_alloc(std::size_t(alignment), rounded);
  if (!data) throw out_of_memory(size);
  if (alignment == kHugePage) madvise(data, rounded, MADV_HUGEPAGE);  // fewer TLB misses; no harm when refused
  return {data, size, std::shared_ptr<void>(data, std::free)};
}

}  // namespace gpuplan
