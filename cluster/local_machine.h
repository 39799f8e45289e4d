// `local`: this machine's GPUs and what joins them, as the driver reports it (NVML, opened at run time, never linked).
// What a driver or card does not say is "not known", never an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cluster/cluster_spec.h"
#include "cluster/machine_facts.h"

namespace gpuplan {

enum class NvLinkRemote : std::uint8_t { Gpu, Switch, Other, Unknown };

/// One active NVLink.
struct LocalNvLink {
  NvLinkRemote remote = NvLinkRemote::Unknown;
  std::string remote_bus_id;  // empty: not known
};

/// 0: not known. The generation drops when idle, the width does not.
struct LocalPcie {
  std::int64_t max_generation = 0, max_lanes = 0, generation = 0, lanes = 0;
};

struct LocalProcess {
  std::int64_t pid = 0;
  std::optional<Bytes> memory;  // not known inside some containers
};

/// A part of a GPU that is split by MIG.
struct LocalMigInstance {
  std::string uuid;
  Bytes memory, memory_free;
  std::int64_t num_sms = 0;
};

/// A GPU's membership of an NVLink domain (NVSwitch systems from Hopper on, NVL72).
struct LocalFabric {
  bool is_ready = false;  // registered with the fabric manager
  std::int64_t clique = 0;
};

struct LocalGpu {
  std::string name;                      // "NVIDIA GeForce RTX 4090"
  Bytes memory, memory_free;             // 0 in all: a GPU that shares the host's memory
  std::optional<Bytes> memory_reserved;  // by the driver: neither free nor anybody's
  std::string uuid, bus_id;              // "GPU-…", "00000000:1B:00.0"
  std::string compute_capability;        // "8.9"; empty: not known
  std::int64_t num_sms = 0;              // 0: not known
  BytesPerSec memory_bandwidth;          // clock x bus width; 0: not known
  LocalPcie pcie;
  std::optional<std::vector<LocalNvLink>> nvlinks;  // the active ones
  BytesPerSec nvlink_rate;                          // of one link, one direction; 0: not known
  std::optional<std::int64_t> numa_node;            // of the host memory near it
  std::optional<bool> is_mig;
  std::vector<LocalMigInstance> mig_instances;
  std::optional<LocalFabric> fabric;
  std::vector<LocalProcess> processes;
};

/// Links between two GPUs.
struct LocalPair {
  std::optional<PathClass> path;                        // over PCIe: Pix … Sys
  std::optional<bool> can_read, can_write, can_nvlink;  // peer-to-peer
};

struct LocalMachine {
  std::string driver_version, cuda_version;  // "580.65.06", "13.0"; empty: not known
  std::vector<LocalGpu> gpus;
  std::vector<std::vector<LocalPair>> pairs;  // [a][b]; empty: not known
  Bytes host_memory, host_memory_free;        // 0: not known
  std::vector<std::string> notes;             // GPUs left out, and why
};

/// Every GPU in PCI order, or those of CUDA_VISIBLE_DEVICES in its order; else in one line why no GPU is visible here.
/// `library`: another NVML than the driver's.
std::variant<LocalMachine, std::string> find_local_machine(const std::string& library = {});
/// The same where GPUs must be. Throws EnvError.
LocalMachine query_local_machine(const std::string& library = {});

/// One of the GPUs that CUDA_VISIBLE_DEVICES lets a program see.
struct VisibleGpu {
  std::size_t index = 0;                    // in the driver's order
  std::optional<std::size_t> mig_instance;  // named by its own UUID
};

/// Reads the variable as CUDA does: numbers or (the beginning of) UUIDs up to the first that names no GPU; all when it
/// is not set, none when it is empty or names one twice.
std::vector<VisibleGpu> visible_gpus(const std::vector<LocalGpu>& all, const std::optional<std::string>& visible);
std::vector<VisibleGpu> visible_gpus(const std::vector<LocalGpu>& all);  // of the environment

}  // namespace gpuplan
