// What NVML says of this machine. Only counting, handles and names are essential; the rest may be unknown.
#include "cluster/local_machine.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/names.h"
#include "cluster/cpu_ranks.h"
#include "cluster/nvml.h"

namespace gpuplan {
namespace {

using nvml::Handle, nvml::Library;

/// A call that fills a text.
std::string text_from(const Library& library, const char* function, Handle device) {
  std::array<char, nvml::kTextBytes> text{};
  return library.call(function, device, text.data(), nvml::kTextBytes) == nvml::kSuccess
             ? nvml::text_of(text.data(), text.size())
             : "";
}

std::optional<unsigned> number_from(const Library& library, const char* function, Handle device) {
  unsigned value = 0;
  return library.call(function, device, &value) == nvml::kSuccess ? std::optional(value) : std::nullopt;
}

Bytes bytes_of(unsigned long long count) { return {std::int64_t(std::min(count, 1ULL << 60))}; }

void read_memory(const Library& library, Handle device, LocalGpu& gpu) {
  nvml::MemoryV2 memory{.version = nvml::version_of<nvml::MemoryV2>(2)};
  if (library.call("nvmlDeviceGetMemoryInfo_v2", device, &memory) == nvml::kSuccess) {
    gpu.memory = bytes_of(memory.total), gpu.memory_free = bytes_of(memory.free);
    gpu.memory_reserved = bytes_of(memory.reserved);
    return;
  }
  nvml::Memory older{};
  if (library.call("nvmlDeviceGetMemoryInfo", device, &older) == nvml::kSuccess)
    gpu.memory = bytes_of(older.total), gpu.memory_free = bytes_of(older.free);
}

/// Source of 64 and 128: CUDA C++ Programming Guide, arithmetic instructions, 32-bit floating-point additions per
/// cycle.
std::int64_t cores_per_sm(int major, int minor) {
  return major == 7 || (major == 8 && minor == 0) || (major == 6 && minor == 0) ? 64 : 128;
}

void read_compute(const Library& library, Handle device, LocalGpu& gpu) {
  int major = 0, minor = 0;
  if (library.call("nvmlDeviceGetCudaComputeCapability", device, &major, &minor) == nvml::kSuccess) {
    gpu.compute_capability = fmt::format("{}.{}", major, minor);
    gpu.num_sms = number_from(library, "nvmlDeviceGetNumGpuCores", device).value_or(0) / cores_per_sm(major, minor);
  }
  unsigned clock = 0;
  const auto width = number_from(library, "nvmlDeviceGetMemoryBusWidth", device);
  if (width && library.call("nvmlDeviceGetMaxClockInfo", device, nvml::kClockMemory, &clock) == nvml::kSuccess)
    gpu.memory_bandwidth = BytesPerSec{2.0 * clock * 1e6 * *width / 8};  // both edges of the clock; bits
}

void read_pcie(const Library& library, Handle device, LocalGpu& gpu) {
  const auto ask = [&](const char* function) {
    return std::int64_t(number_from(library, function, device).value_or(0));
  };
  gpu.pcie = {.max_generation = ask("nvmlDeviceGetMaxPcieLinkGeneration"),
              .max_lanes = ask("nvmlDeviceGetMaxPcieLinkWidth"),
              .generation = ask("nvmlDeviceGetCurrPcieLinkGeneration"),
              .lanes = ask("nvmlDeviceGetCurrPcieLinkWidth")};
  nvml::PciInfo pci{};
  if (library.call("nvmlDeviceGetPciInfo_v3", device, &pci) == nvml::kSuccess)
    gpu.bus_id = nvml::text_of(pci.bus_id, sizeof pci.bus_id);
}

NvLinkRemote remote_of(const Library& library, Handle device, unsigned link) {
  unsigned type = 0;
  if (library.call("nvmlDeviceGetNvLinkRemoteDeviceType", device, link, &type) != nvml::kSuccess)
    return NvLinkRemote::Unknown;
  return type == nvml::kRemoteGpu      ? NvLinkRemote::Gpu
         : type == nvml::kRemoteSwitch ? NvLinkRemote::Switch
         : type == 0xFF                ? NvLinkRemote::Unknown
                                       : NvLinkRemote::Other;
}

void read_nvlinks(const Library& library, Handle device, LocalGpu& gpu) {
  std::vector<LocalNvLink> links;
  for (unsigned link = 0; link < nvml::kMostLinks; ++link) {
    unsigned is_active = 0;
    const int code = library.call("nvmlDeviceGetNvLinkState", device, link, &is_active);
    if (code == nvml::kFunctionNotFound) return;  // not known
    if (code == nvml::kInvalidArgument) break;    // the card has no more
    if (code != nvml::kSuccess || is_active == 0) continue;
    nvml::PciInfo pci{};
    const bool knows = library.call("nvmlDeviceGetNvLinkRemotePciInfo_v2", device, link, &pci) == nvml::kSuccess;
    links.push_back({remote_of(library, device, link), knows ? nvml::text_of(pci.bus_id, sizeof pci.bus_id) : ""});
  }
  nvml::FieldValue speed{.field = nvml::kFieldNvLinkSpeed};
  if (!links.empty() && library.call("nvmlDeviceGetFieldValues", device, 1, &speed) == nvml::kSuccess &&
      speed.code == nvml::kSuccess)
    gpu.nvlink_rate = BytesPerSec{double(speed.value.small) * 1e6};
  gpu.nvlinks = std::move(links);
}

/// The first NUMA node near the GPU.
std::optional<std::int64_t> numa_node(const Library& library, Handle device) {
  std::array<unsigned long, 16> nodes{};
  constexpr unsigned kNodeScope = 0;
  if (library.call("nvmlDeviceGetMemoryAffinity", device, unsigned(nodes.size()), nodes.data(), kNodeScope) !=
      nvml::kSuccess)
    return std::nullopt;
  constexpr std::size_t kBits = 8 * sizeof(unsigned long);
  for (std::size_t node = 0; node < nodes.size() * kBits; ++node)
    if ((nodes[node / kBits] >> (node % kBits) & 1UL) != 0) return std::int64_t(node);
  return std::nullopt;
}

void read_mig(const Library& library, Handle device, LocalGpu& gpu) {
  unsigned current = 0, pending = 0;
  if (library.call("nvmlDeviceGetMigMode", device, &current, &pending) == nvml::kSuccess) gpu.is_mig = current != 0;
  if (!gpu.is_mig.value_or(false)) return;
  const unsigned count = number_from(library, "nvmlDeviceGetMaxMigDeviceCount", device).value_or(0);
  for (unsigned i = 0; i < count; ++i) {
    Handle instance = nullptr;
    if (library.call("nvmlDeviceGetMigDeviceHandleByIndex", device, i, &instance) != nvml::kSuccess) continue;
    LocalGpu part;
    read_memory(library, instance, part);
    nvml::Attributes attributes{};
    library.call("nvmlDeviceGetAttributes_v2", instance, &attributes);
    gpu.mig_instances.push_back(
        {text_from(library, "nvmlDeviceGetUUID", instance), part.memory, part.memory_free, attributes.num_sms});
  }
}

void read_fabric(const Library& library, Handle device, LocalGpu& gpu) {
  nvml::FabricInfo info{.version = nvml::version_of<nvml::FabricInfo>(2)};
  constexpr unsigned kNotSupportedState = 0, kCompleted = 3;
  if (library.call("nvmlDeviceGetGpuFabricInfoV", device, &info) != nvml::kSuccess || info.state == kNotSupportedState)
    return;
  gpu.fabric = LocalFabric{info.state == kCompleted && info.status == nvml::kSuccess, info.clique};
}

void read_processes(const Library& library, Handle device, LocalGpu& gpu) {
  constexpr unsigned kMostProcesses = 1024;
  for (const char* function : {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"}) {
    std::vector<nvml::ProcessInfo> found(kMostProcesses);
    unsigned count = kMostProcesses;
    if (library.call(function, device, &count, found.data()) != nvml::kSuccess) continue;
    found.resize(std::min(count, kMostProcesses));
    for (const nvml::ProcessInfo& process : found)
      gpu.processes.push_back({process.pid, process.memory == nvml::kNotAvailable
                                                ? std::nullopt
                                                : std::optional(bytes_of(process.memory))});
    return;
  }
}

}  // namespace

/// Returns why the driver does not even name it; empty where it does.
static std::string read_gpu(const Library& library, Handle device, LocalGpu& gpu) {
  std::array<char, nvml::kTextBytes> name{};
  if (std::string problem = library.problem_of("nvmlDeviceGetName", device, name.data(), nvml::kTextBytes);
      !problem.empty())
    return problem;
  gpu.name = nvml::text_of(name.data(), name.size());
  gpu.uuid = text_from(library, "nvmlDeviceGetUUID", device);
  read_memory(library, device, gpu);
  read_compute(library, device, gpu);
  read_pcie(library, device, gpu);
  read_nvlinks(library, device, gpu);
  gpu.numa_node = numa_node(library, device);
  read_mig(library, device, gpu);
  read_fabric(library, device, gpu);
  read_processes(library, device, gpu);
  return {};
}

namespace {

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
  if (const auto found = find_host_facts(); const HostFacts* const host = std::get_if<HostFacts>(&found))
    machine.host_memory = host->memory, machine.host_memory_free = host->memory_available;
}

/// Says why a GPU that the driver counts cannot be asked; empty when it can.
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

std::variant<LocalMachine, std::string> find_local_machine(const std::string& file) {
  std::string problem;
  const auto opened = Library::open(file, problem);
  if (!opened) return problem;
  const Library& library = *opened;
  LocalMachine machine;
  read_versions(library, machine);
  unsigned count = 0;
  if (problem = library.problem_of("nvmlDeviceGetCount_v2", &count); !problem.empty()) return problem;
  std::vector<Handle> handles;
  std::vector<LocalGpu> all;
  for (unsigned index = 0; index < count; ++index) {
    Handle device = nullptr;
    if (std::string why = open_device(library, index, device); !why.empty()) {
      machine.notes.push_back(std::move(why));
      continue;
    }
    all.emplace_back();
    if (problem = read_gpu(library, device, all.back()); !problem.empty()) return problem;
    handles.push_back(device);
  }
  std::vector<Handle> visible;
  for (const VisibleGpu& gpu : visible_gpus(all)) {
    machine.gpus.push_back(all[gpu.index]);
    if (gpu.mig_instance) machine.gpus.back().mig_instances = {all[gpu.index].mig_instances[*gpu.mig_instance]};
    visible.push_back(handles[gpu.index]);
  }
  if (machine.gpus.empty())
    return fmt::format("no GPU is visible ({}): {}",
                       machine.notes.empty() ? "driver, CUDA_VISIBLE_DEVICES" : machine.notes.front(), kDescribeGpus);
  machine.pairs = pairs_of(library, visible);
  read_host(machine);
  return machine;
}

LocalMachine query_local_machine(const std::string& library) {
  auto found = find_local_machine(library);
  if (const std::string* const problem = std::get_if<std::string>(&found)) throw EnvError(*problem);
  return std::get<LocalMachine>(std::move(found));
}

namespace {

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

/// The GPU or MIG instance that one entry names.
std::optional<VisibleGpu> named(const std::vector<LocalGpu>& all, const std::string& text) {
  if (is_number(text)) {
    if (text.size() > 6) return std::nullopt;
    const auto index = std::size_t(parse_integer(text, "", 0));
    return index < all.size() ? std::optional(VisibleGpu{index, {}}) : std::nullopt;
  }
  if (text.size() <= 4) return std::nullopt;  // "GPU-" alone
  for (std::size_t gpu = 0; gpu < all.size(); ++gpu) {
    if (all[gpu].uuid.starts_with(text)) return VisibleGpu{gpu, {}};
    for (std::size_t i = 0; i < all[gpu].mig_instances.size(); ++i)
      if (all[gpu].mig_instances[i].uuid.starts_with(text)) return VisibleGpu{gpu, i};
  }
  return std::nullopt;
}

bool is_same(const VisibleGpu& a, const VisibleGpu& b) {
  return a.index == b.index && a.mig_instance == b.mig_instance;
}

}  // namespace

std::vector<VisibleGpu> visible_gpus(const std::vector<LocalGpu>& all, const std::optional<std::string>& visible) {
  std::vector<VisibleGpu> out;
  if (!visible) {
    for (std::size_t i = 0; i < all.size(); ++i) out.push_back({i, {}});
    return out;
  }
  for (const std::string& part : split(*visible, ',')) {
    const auto gpu = named(all, std::string(trim(part)));
    if (!gpu) break;
    if (std::any_of(out.begin(), out.end(), [&](const VisibleGpu& seen) { return is_same(seen, *gpu); })) return {};
    out.push_back(*gpu);
  }
  return out;
}

std::vector<VisibleGpu> visible_gpus(const std::vector<LocalGpu>& all) {
  return visible_gpus(all, variable("CUDA_VISIBLE_DEVICES"));
}

}  // namespace gpuplan
