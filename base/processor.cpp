#include "base/processor.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include <sched.h>
#include <sys/utsname.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/narrow.h"
#include "base/surroundings.h"

namespace gpuplan {
namespace {

/// "quota period" in microseconds of CPU time per wall time, or "max period".
int group_cores() {
  std::istringstream file(read_if_there("/sys/fs/cgroup/cpu.max").value_or(""));
  double quota = 0, period = 0;
  return file >> quota >> period && period > 0 ? std::max(1, narrow<int>(std::llround(std::ceil(quota / period))))
                                               : CPU_SETSIZE;
}

std::string architecture_name() {
  utsname name{};
  return std::string(uname(&name) == 0 ? name.machine : "unknown") + " processor";
}

}  // namespace

int num_usable_cores() {
  if (const Surroundings* const given = given_surroundings()) return given->num_cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::max(1, std::min(cores, group_cores()));
}

bool bind_to_share_of_cores(std::int64_t part, std::int64_t num_parts) {
  cpu_set_t all, own;
  CPU_ZERO(&all);
  CPU_ZERO(&own);
  if (num_parts <= 1 || sched_getaffinity(0, sizeof all, &all) != 0) return false;
  const std::int64_t num_cores = CPU_COUNT(&all), share = num_cores / num_parts;
  if (share == 0 || num_usable_cores() < num_cores) return false;
  for (std::int64_t core = 0, place = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &all) && place++ / share == part) CPU_SET(core, &own);
  return sched_setaffinity(0, sizeof own, &own) == 0;
}

std::optional<ProcessorFacts> find_processor_facts(const std::filesystem::path& cpuinfo) {
  const auto text = read_if_there(cpuinfo);
  if (!text) return std::nullopt;
  std::istringstream file(*text);
  ProcessorFacts facts;
  for (std::string line; std::getline(file, line) && !line.empty();) {  // the first processor's paragraph
    const std::string value(trim(std::string_view(line).substr(std::min(line.size(), line.find(':') + 1))));
    if (line.starts_with("model name")) facts.name = value;
    if (line.starts_with("flags")) facts.flags = split(value, ' ');
  }
  if (facts.name.empty()) facts.name = architecture_name();
  return facts;
}

}  // namespace gpuplan
