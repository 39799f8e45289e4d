#include "device/cuda/opened.h"

#include <map>
#include <set>
#include <utility>

#include "device/cuda/check.h"
#include "device/cuda/memory_in_use.h"

namespace gpuplan::cuda {
namespace {

std::mutex g_mutex;  // guards what follows; the last may be read without it
std::map<int, std::shared_ptr<OpenedGpu>> g_opened;
std::set<std::pair<int, int>> g_connected;
std::atomic<int> g_num_opened{0};

int device_of(const void* address) {
  cudaPointerAttributes attributes{};
  cuda_check(cudaPointerGetAttributes(&attributes, address), "asking which GPU an address is on");
  return attributes.device;
}

/// From now on `gpu` reads and writes memory of `peer`; where the machine cannot, copies go through the host.
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
