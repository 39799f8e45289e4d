// What NVML says of this machine. Only counting, handles and names are essential; the rest may be unknown.
#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "cluster/cpu_ranks.h"
#include "cluster/local_gpu.h"
#include "cluster/nvml.h"
#include "cluster/visible_gpus.h"

namespace gpuplan {
namespace {

using nvml::Handle, nvml::Library;

std::optional<PathClass> path_between(const Library& library, Handle a, Handle b) {
  int level = 0;
  if (library.call("nvmlDeviceGetTopologyCommonAncestor", a, b, &level) != nvml::kSuccess) return std::nullopt;
  // nvmlGpuTopologyLevel_t: 0 one board, 10 one switch, 20 several, 30 the host bridge, 40 the NUMA node, 50 the system
  if (level <= 10) return PathClass::Pix;
  if (level <= 20) return PathClass::Pxb;
  if (level <= 30) return PathClass::Phb;
  return level <= 40 ? PathClass::Node : PathClass::Sys;
}

std::optional<bool> can(const Library& library, Handle a, Handle b, int what) {
  int status = 0;
  if (library.call("nvmlDeviceGetP2PStatus", a, b, what, &status) != nvml::kSuccess) return std::nullopt;
  constexpr int kOk = 0, kUnknown = 6;
  return status == kUnknown ? std::nullopt : std::optional(status == kOk);
}

std::vector<std::vector<LocalPair>> pairs_of(const Library& library, const std::vector<Handle>& devices) {
  std::vector pairs(devices.size(), std::vector<LocalPair>(devices.size()));
  for (std::size_t a = 0; a < devices.size(); ++a)
    for (std::size_t b = 0; b < devices.size(); ++b)
      if (a != b)
        pairs[a][b] = {path_between(library, devices[a], devices[b]), can(library, devices[a], devices[b], nvml::kRead),
                       can(library, devices[a], devices[b], nvml::kWrite),
                       can(library, devices[a], devices[b], nvml::kNvLink)};
  return pairs;
}

void read_versions(const Library& library, LocalMachine& machine) {
  std::array<char, nvml::kTextBytes> text{};
  if (library.call("nvmlSystemGetDriverVersion", text.data(), nvml::kTextBytes) == nvml::kSuccess)
    machine.driver_version = nvml::text_of(text.data(), text.size());
  int version = 0;
  if (library.call("nvmlSystemGetCudaDriverVersion_v2", &version) == nvml::kSuccess)
    machine.cuda_version = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

void read_host(LocalMachine& machine) {
  try {
    const HostFacts host = read_host_facts();
    machine.host_memory = host.memory, machine.host_memory_free = host.memory_available;
  } catch (const EnvError&) {  // not known
  }
}

/// Why a GPU that the driver counts cannot be asked; empty when it can.
std::string open_device(const Library& library, unsigned index, Handle& device) {
  const int code = library.call("nvmlDeviceGetHandleByIndex_v2", index, &device);
  if (code == nvml::kSuccess) return {};
  const char* why = code == nvml::kGpuIsLost       ? "has fallen off the bus: reset it, or reboot"
                    : code == nvml::kResetRequired ? "needs a reset"
                    : code == nvml::kNoPermission || code == nvml::kOperatingSystem
                        ? "is not for this process (permission, cgroups)"
                        : "does not answer";
  return fmt::format("GPU {} {}: left out", index, why);
}

}  // namespace

LocalMachine query_local_machine(const std::string& file) {
  const Library library(file);
  LocalMachine machine;
  read_versions(library, machine);
  unsigned count = 0;
  library.need("nvmlDeviceGetCount_v2", &count);
  std::vector<Handle> handles;
  std::vector<LocalGpu> all;
  for (unsigned index = 0; index < count; ++index) {
    Handle device = nullptr;
    if (std::string why = open_device(library, index, device); !why.empty()) {
      machine.notes.push_back(std::move(why));
      continue;
    }
    all.push_back(read_gpu(library, device));
    handles.push_back(device);
  }
  std::vector<Handle> visible;
  for (const VisibleGpu& gpu : visible_gpus(all)) {
    machine.gpus.push_back(all[gpu.index]);
    if (gpu.mig_instance) machine.gpus.back().mig_instances = {all[gpu.index].mig_instances[*gpu.mig_instance]};
    visible.push_back(handles[gpu.index]);
  }
  if (machine.gpus.empty())
    throw EnvError(fmt::format("no GPU is visible ({}): {}",
                               machine.notes.empty() ? "driver, CUDA_VISIBLE_DEVICES" : machine.notes.front(),
                               kDescribeGpus));
  machine.pairs = pairs_of(library, visible);
  read_host(machine);
  return machine;
}

}  // namespace gpuplan
