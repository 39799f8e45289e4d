// What processor this host has, and how much of it this process may use. CPU plans, CPU ranks and calibration ask here,
// so that a profile and the plan that uses it mean the same cores.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace gpuplan {

/// Cores by the affinity mask, fewer when the control group's quota allows less; at least one.
int num_usable_cores();

/// Binds the calling thread, and those that it starts from now on, to the part'th of `num_parts` equal shares of the
/// cores that it may use, as MPI's launchers do: a rank that waits for another one must not wait on the core that the
/// other one needs. Does nothing for one part, or where there are more parts than cores, or a quota instead of cores.
/// Returns whether it is bound.
bool bind_to_share_of_cores(std::int64_t part, std::int64_t num_parts);

struct ProcessorFacts {
  std::string name;  // "Intel(R) Xeon(R) Processor"; "aarch64 processor" where the kernel gives no name (ARM)
  std::vector<std::string> flags;  // "avx2"; none where the kernel does not list them
};

/// Reads the facts of the first processor; nothing where the file cannot be read.
std::optional<ProcessorFacts> find_processor_facts(const std::filesystem::path& cpuinfo = "/proc/cpuinfo");

}  // namespace gpuplan
