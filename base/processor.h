// What processor this host has, and how much of it this process may use. CPU plans, CPU ranks and calibration ask here, so that
// a profile and the plan that uses it mean the same cores.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gpuplan {

/// Cores by the affinity mask, fewer when the control group's quota allows less; at least one.
int num_usable_cores();

struct ProcessorFacts {
  std::string name;                // "Intel(R) Xeon(R) Processor"; "aarch64 processor" where the kernel gives no name (ARM)
  std::vector<std::string> flags;  // "avx2"; none where the kernel does not list them
};

/// Of the first processor. Throws EnvError when the file cannot be read.
ProcessorFacts read_processor_facts(const std::filesystem::path& cpuinfo = "/proc/cpuinfo");

}  // namespace gpuplan
