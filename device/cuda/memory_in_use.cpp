#include "device/cuda/memory_in_use.h"

#include <fstream>
#include <memory>

#include <dlfcn.h>

namespace gpuplan::cuda {
namespace {

// The few declarations needed of NVML's stable interface (nvml.h): return codes are int, 0 is success.
using NvmlDevice = void*;
struct NvmlMemory {
  unsigned long long total, free, used;
};

struct Closer {
  void operator()(void* library) const { dlclose(library); }
};

template <class Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

std::optional<Bytes> memory_in_use(const std::string& bus_id) {
  const std::unique_ptr<void, Closer> library(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL));
  if (!library) return {};
  const auto start = symbol<int()>(library.get(), "nvmlInit_v2"), stop = symbol<int()>(library.get(), "nvmlShutdown");
  const auto find = symbol<int(const char*, NvmlDevice*)>(library.get(), "nvmlDeviceGetHandleByPciBusId_v2");
  const auto ask = symbol<int(NvmlDevice, NvmlMemory*)>(library.get(), "nvmlDeviceGetMemoryInfo");
  if (!start || !stop || !find || !ask || start() != 0) return {};
  NvmlDevice device = nullptr;
  NvmlMemory memory{};
  const bool is_known = find(bus_id.c_str(), &device) == 0 && ask(device, &memory) == 0;
  stop();
  if (!is_known) return {};
  return Bytes{std::int64_t(memory.used)};
}

std::string driver_release() {
  std::ifstream file("/sys/module/nvidia/version");
  std::string release;
  std::getline(file, release);
  return release;
}

}  // namespace gpuplan::cuda
