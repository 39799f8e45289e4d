#include "device/cuda/context.h"

#include <array>
#include <map>
#include <set>

#include <cublasLt.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include "base/files.h"
#include "base/names.h"
#include "device/cuda/check.h"

namespace gpuplan::cuda {
namespace {

std::string cuda_version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

int driver_version() {
  int version = 0;
  cudaDriverGetVersion(&version);  // 0 and success without a driver
  return version;
}

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

std::mutex g_mutex;  // guards what follows; the last may be read without it
std::map<int, std::shared_ptr<OpenedGpu>> g_opened;
std::set<std::pair<int, int>> g_connected;
std::atomic<int> g_num_opened{0};

int device_of(const void* address) {
  cudaPointerAttributes attributes{};
  cuda_check(cudaPointerGetAttributes(&attributes, address), "asking which GPU an address is on");
  return attributes.device;
}

/// Lets `gpu` read and write memory of `peer` from now on; where the machine cannot, copies go through the host.
void enable_access(int gpu, int peer) {
  int can = 0;
  cuda_check(cudaDeviceCanAccessPeer(&can, gpu, peer), "asking for peer access");
  if (!can) return;
  cuda_check(cudaSetDevice(gpu), "selecting the GPU");
  const cudaError_t status = cudaDeviceEnablePeerAccess(peer, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled)
    cudaGetLastError();
  else
    cuda_check(status, "enabling peer access");
}

}  // namespace

int count_gpus() {
  const int driver = driver_version();
  if (driver == 0)
    throw EnvError(
        "no NVIDIA driver on this machine: install it, or take the CPU (run --gpus 2xcpu, calibrate --device cpu)");
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorNoDevice) return 0;
  if (status == cudaErrorInsufficientDriver)
    throw EnvError(fmt::format("the NVIDIA driver is for CUDA {}, and this build needs {}: update the driver",
                               cuda_version_text(driver), cuda_version_text(CUDART_VERSION)));
  cuda_check(status, "counting the GPUs");
  return count;
}

GpuIdentity identify_gpu(int index) {
  const int count = count_gpus();
  if (index < 0 || index >= count)
    throw EnvError(fmt::format("no GPU {}: the driver shows {} to this process", index, count));
  cudaDeviceProp properties{};
  cuda_check(cudaGetDeviceProperties(&properties, index), "reading what the GPU is");
  std::array<char, 32> bus_id{};
  cuda_check(cudaDeviceGetPCIBusId(bus_id.data(), int(bus_id.size()), index), "reading the GPU's address");
  return {.index = index,
          .name = properties.name,
          .bus_id = bus_id.data(),
          .capability = {properties.major, properties.minor},
          .memory = {std::int64_t(properties.totalGlobalMem)},
          .num_multiprocessors = properties.multiProcessorCount};
}

Bytes free_memory() {
  std::size_t free = 0, total = 0;
  cuda_check(cudaMemGetInfo(&free, &total), "asking for free memory");
  return {std::int64_t(free)};
}

std::vector<std::pair<std::string, std::string>> library_versions() {
  int runtime = 0;
  cuda_check(cudaRuntimeGetVersion(&runtime), "asking for the version");
  const auto blas = cublasLtGetVersion();
  std::vector<std::pair<std::string, std::string>> versions{
      {"CUDA driver", cuda_version_text(driver_version())},
      {"CUDA runtime", cuda_version_text(runtime)},
      {"cuBLASLt", fmt::format("{}.{}.{}", blas / 10000, blas % 10000 / 100, blas % 100)}};
  if (auto release = driver_release(); !release.empty())
    versions.insert(versions.begin(), {"driver", std::move(release)});
  return versions;
}

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

std::string driver_release() { return split(read_if_there("/sys/module/nvidia/version").value_or(""), '\n').front(); }

OpeningCost OpenedGpu::open(const GpuIdentity& gpu, const std::function<void()>& first_use) {
  const std::lock_guard lock(mutex_);
  const auto before = cost_ ? std::nullopt : memory_in_use(gpu.bus_id);
  first_use();
  if (cost_) return *cost_;
  const auto after = memory_in_use(gpu.bus_id);
  const bool is_exact = before && after && *after > *before;
  cost_ = OpeningCost{is_exact ? *after - *before : gpu.memory - free_memory(), is_exact};
  return *cost_;
}

std::shared_ptr<OpenedGpu> opened_gpu(int index) {
  const std::lock_guard lock(g_mutex);
  auto& gpu = g_opened[index];
  if (!gpu) gpu = std::make_shared<OpenedGpu>();
  g_num_opened = int(g_opened.size());
  return gpu;
}

void connect_peers(const void* to, const void* from) {
  if (g_num_opened < 2) return;
  const int there = device_of(to), here = device_of(from);
  if (there == here) return;
  const std::lock_guard lock(g_mutex);
  if (!g_connected.insert(std::minmax(here, there)).second) return;
  int current = 0;
  cuda_check(cudaGetDevice(&current), "asking for the current GPU");
  enable_access(here, there);
  enable_access(there, here);
  cuda_check(cudaSetDevice(current), "selecting the GPU");
}

}  // namespace gpuplan::cuda
