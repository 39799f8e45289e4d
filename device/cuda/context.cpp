#include "device/cuda/context.h"

#include <array>

#include <cublasLt.h>
#include <fmt/format.h>

#include "device/cuda/check.h"
#include "device/cuda/memory_in_use.h"

namespace gpuplan::cuda {
namespace {

std::string cuda_version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

int driver_version() {
  int version = 0;
  cudaDriverGetVersion(&version);  // 0 and success without a driver
  return version;
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

}  // namespace gpuplan::cuda
