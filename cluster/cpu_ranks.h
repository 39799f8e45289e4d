// `Nxcpu`: ranks on this host that share its cores and memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "cluster/cluster_spec.h"

namespace gpuplan {

/// Part of the host that this process may use.
struct HostFacts {
  std::int64_t num_cores = 1;
  Bytes memory, memory_available;
  std::string cpu_name;  // "Intel(R) Xeon(R) Processor"
  std::vector<std::string> cpu_flags;
};

/// $GPUPLAN_PROC, else /proc.
std::filesystem::path proc_folder();

/// Reads meminfo and cpuinfo below `proc`, which a container may hide; else says what is missing.
std::variant<HostFacts, std::string> find_host_facts(const std::filesystem::path& proc = proc_folder());
/// The same where they must be known. Throws EnvError.
HostFacts read_host_facts(const std::filesystem::path& proc = proc_folder());

/// `num_ranks` equal ranks; rates are data/cpu.yaml per core, not calibrated.
ClusterSpec cpu_cluster(std::int64_t num_ranks, const HostFacts& host);

}  // namespace gpuplan
