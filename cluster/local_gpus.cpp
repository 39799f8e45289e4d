#include "cluster/local_gpus.h"

#include <cstdlib>
#include <memory>

#include <dlfcn.h>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "cluster/gpu_list.h"

namespace gpuplan {
namespace {

// The few declarations needed of NVML's stable interface (nvml.h): return codes are int, 0 is success.
constexpr unsigned kNameBytes = 96;  // NVML_DEVICE_NAME_V2_BUFFER_SIZE
struct NvmlMemory {
  unsigned long long total, free, used;
};
using NvmlDevice = void*;

constexpr const char* kDescribe = "describe the GPUs with --gpus, for example --gpus 4xA6000";

/// NVML, open for as long as this lives.
class Nvml {
 public:
  explicit Nvml(const char* library) : handle_(dlopen(library, RTLD_NOW | RTLD_LOCAL), &dlclose) {
    if (!handle_) throw EnvError(fmt::format("no NVIDIA driver found ({} is missing): {}", library, kDescribe));
    error_text_ = symbol<const char* (*)(int)>("nvmlErrorString");
    check(symbol<int (*)()>("nvmlInit_v2")(), "nvmlInit");
    shutdown_ = symbol<int (*)()>("nvmlShutdown");
  }
  ~Nvml() {
    if (shutdown_) shutdown_();
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  unsigned num_devices() const {
    unsigned count = 0;
    check(symbol<int (*)(unsigned*)>("nvmlDeviceGetCount_v2")(&count), "nvmlDeviceGetCount");
    return count;
  }

  LocalGpu device(unsigned index) const {
    NvmlDevice device = nullptr;
    check(symbol<int (*)(unsigned, NvmlDevice*)>("nvmlDeviceGetHandleByIndex_v2")(index, &device),
          "nvmlDeviceGetHandleByIndex");
    char name[kNameBytes] = {};
    check(symbol<int (*)(NvmlDevice, char*, unsigned)>("nvmlDeviceGetName")(device, name, kNameBytes),
          "nvmlDeviceGetName");
    NvmlMemory memory{};
    check(symbol<int (*)(NvmlDevice, NvmlMemory*)>("nvmlDeviceGetMemoryInfo")(device, &memory),
          "nvmlDeviceGetMemoryInfo");
    return {name, Bytes{std::int64_t(memory.total)}, Bytes{std::int64_t(memory.free)}};
  }

 private:
  template <class Function>
  Function symbol(const char* name) const {
    void* const found = dlsym(handle_.get(), name);
    if (!found)
      throw EnvError(fmt::format("the NVIDIA driver is too old (libnvidia-ml has no {}): {}", name, kDescribe));
    return reinterpret_cast<Function>(found);
  }
  void check(int code, const char* call) const {
    if (code != 0)
      throw EnvError(fmt::format("the NVIDIA driver does not answer ({}: {}): {}", call, error_text_(code), kDescribe));
  }

  std::unique_ptr<void, int (*)(void*)> handle_;
  const char* (*error_text_)(int) = nullptr;
  int (*shutdown_)() = nullptr;
};

/// The numbers in CUDA_VISIBLE_DEVICES below `count`; all when it is not set or holds anything else (UUIDs, MIG).
std::vector<unsigned> visible_devices(unsigned count) {
  std::vector<unsigned> all, listed;
  for (unsigned i = 0; i < count; ++i) all.push_back(i);
  const char* const variable = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!variable) return all;
  if (trim(variable).empty()) return {};  // CUDA sees no GPU then
  try {
    for (const std::string& part : split(variable, ','))
      if (const auto index = parse_integer(part, "", 0); index < count) listed.push_back(unsigned(index));
  } catch (const InputError&) { return all; }
  return listed;
}

/// The product with the memory this very card offers: ECC and the driver change it.
void take_real_memory(GpuSpec& gpu, const LocalGpu& found) {
  const Bytes hidden = gpu.device_memory - gpu.framework_memory;
  gpu.device_memory = found.memory;
  gpu.framework_memory = found.memory - hidden;
}

}  // namespace

std::vector<LocalGpu> query_local_gpus(const char* library) {
  const Nvml nvml(library);
  std::vector<LocalGpu> out;
  for (unsigned index : visible_devices(nvml.num_devices())) out.push_back(nvml.device(index));
  if (out.empty()) throw EnvError(fmt::format("no GPU is visible (driver, CUDA_VISIBLE_DEVICES): {}", kDescribe));
  return out;
}

ClusterSpec local_cluster(const std::vector<LocalGpu>& found) {
  GPUPLAN_CHECK(!found.empty(), "`local` has at least one GPU");
  std::vector<NamedGpus> parts;
  for (const LocalGpu& gpu : found) parts.push_back({1, gpu.name});
  ClusterSpec cluster = cluster_of(parts, NodeRule::OneMachine);
  cluster.name = "local";
  for (std::size_t i = 0; i < found.size(); ++i) {
    take_real_memory(cluster.gpus[i], found[i]);
    cluster.memory_in_use.push_back(found[i].memory - found[i].memory_free);
  }
  cluster.assumptions.push_back(
      "names and free memory are NVML's, links are the usual ones of these GPUs: calibrate measures them");
  return cluster;
}

}  // namespace gpuplan
