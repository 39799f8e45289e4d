#include "device/cpu/processor.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include <sched.h>
#include <sys/utsname.h>

#include "device/cpu/gemm.h"
#include "device/cpu/memory.h"

namespace gpuplan {
namespace {

std::string model_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (const auto at = line.find(": "); at != std::string::npos) return line.substr(at + 2);
  return "CPU";
}

std::string kernel_release() {
  utsname name{};
  return uname(&name) == 0 ? name.release : "unknown";
}

/// "quota period" in microseconds of CPU time per wall time, or "max period".
int group_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  return file >> quota >> period && period > 0 ? std::max(1, int(std::ceil(quota / period))) : CPU_SETSIZE;
}

}  // namespace

int num_usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::max(1, std::min(cores, group_cores()));
}

DeviceFacts cpu_facts(int num_threads) {
  const GemmLibrary library = gemm_library();
  DeviceFacts facts{.kind = DeviceKind::Cpu,
                    .name = model_name(),
                    .architecture = library.instructions,
                    .memory = total_host_memory(),
                    .memory_free = free_host_memory(),
                    .num_cores = num_threads,
                    .gemm_types = library.types,
                    .versions = {{"oneDNN", library.version}, {"Linux", kernel_release()}},
                    .warnings = {}};
  if (!library.warning.empty()) facts.warnings.push_back(library.warning);
  return facts;
}

}  // namespace gpuplan
