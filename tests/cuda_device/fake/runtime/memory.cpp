// Memory of the fake GPUs: pages of the host that end right before one that nobody may touch, so that what runs over
// the end or uses freed memory crashes. It comes full of 0xFF, which is NaN as a number: what is read before it is
// written shows.
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include <sys/mman.h>

#include "cuda_device/fake/runtime/capture.h"

namespace gpuplan::fake {
namespace {

constexpr std::size_t kPage = 4096, kAlignment = 256;
constexpr std::size_t kMostFilled = std::size_t(64) << 20;  // larger buffers are not worth the time

struct Allocation {
  std::int64_t size = 0;
  Place place = Place::Device;
  int device = -1;
  std::shared_ptr<GpuState> gpu;
  char* mapped = nullptr;
  std::size_t mapped_size = 0;
};

struct Allocations {
  std::mutex mutex;
  std::map<std::uintptr_t, Allocation> by_address;
};

Allocations& allocations() {
  static Allocations& only = *new Allocations;
  return only;
}

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

/// The end is as near to the guard page as the alignment allows.
void* mapped_pages(Allocation& allocation) {
  const std::size_t size = (std::size_t(allocation.size) + kAlignment - 1) / kAlignment * kAlignment;
  const std::size_t pages = (size + kPage - 1) / kPage * kPage;
  allocation.mapped_size = pages + kPage;
  void* const memory =
      mmap(nullptr, allocation.mapped_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  allocation.mapped = static_cast<char*>(memory);
  mprotect(allocation.mapped + pages, kPage, PROT_NONE);
  char* const first = allocation.mapped + pages - size;
  if (size <= kMostFilled) std::memset(first, 0xFF, size);
  return first;
}

cudaError_t allocated(void** out, Allocation allocation) {
  void* const memory = mapped_pages(allocation);
  if (!memory) return cudaErrorMemoryAllocation;
  const std::lock_guard lock(allocations().mutex);
  allocations().by_address.emplace(number(memory), std::move(allocation));
  *out = memory;
  return cudaSuccess;
}

/// Takes `size` off what is free on the GPU; false when there is not so much.
bool reserve(GpuState& gpu, std::int64_t size) {
  const std::lock_guard lock(gpu.mutex);
  if (size > gpu.facts.memory - kContextBytes - gpu.allocated) return false;
  gpu.allocated += size;
  return true;
}

/// As cudaFree does: memory goes when nobody can be using it.
void wait_for_all_streams(GpuState& gpu) {
  std::vector<std::shared_ptr<Worker>> workers;
  {
    const std::lock_guard lock(gpu.mutex);
    std::erase_if(gpu.workers, [](const auto& worker) { return worker.expired(); });
    for (const auto& worker : gpu.workers)
      if (auto alive = worker.lock()) workers.push_back(std::move(alive));
  }
  for (const auto& worker : workers) worker->wait_idle();
}

cudaError_t freed(void* memory, Place place) {
  if (!memory) return cudaSuccess;
  Allocation allocation;
  {
    const std::lock_guard lock(allocations().mutex);
    const auto found = allocations().by_address.find(number(memory));
    if (found == allocations().by_address.end() || found->second.place != place) return cudaErrorInvalidValue;
    allocation = found->second;
  }
  wait_for_all_streams(*allocation.gpu);
  {
    const std::lock_guard lock(allocations().mutex);
    allocations().by_address.erase(number(memory));
  }
  munmap(allocation.mapped, allocation.mapped_size);
  if (place == Place::Device) {
    const std::lock_guard lock(allocation.gpu->mutex);
    allocation.gpu->allocated -= allocation.size;
  }
  return cudaSuccess;
}

}  // namespace

Location locate(const void* address) {
  const std::lock_guard lock(allocations().mutex);
  auto next = allocations().by_address.upper_bound(number(address));
  if (next == allocations().by_address.begin()) return {};
  const auto& [begin, allocation] = *--next;
  const auto left = std::int64_t(begin) + allocation.size - std::int64_t(number(address));
  return left > 0 ? Location{allocation.place, allocation.device, left} : Location{};
}

bool is_on_device(const void* address, std::int64_t bytes, int device) {
  if (bytes == 0) return true;
  const Location location = locate(address);
  return location.place == Place::Device && location.device == device && bytes <= location.bytes_left;
}

}  // namespace gpuplan::fake

using namespace gpuplan::fake;

extern "C" {

cudaError_t cudaMalloc(void** memory, std::size_t size) {
  *memory = nullptr;
  if (const auto status = entered()) return said(status);
  if (const auto status = refused_while_capturing()) return said(status);
  if (size == 0) return cudaSuccess;
  const auto state = gpu(current_device());
  if (is_allocation_to_fail() || !reserve(*state, std::int64_t(size))) return said(cudaErrorMemoryAllocation);
  return said(allocated(memory, {.size = std::int64_t(size), .device = current_device(), .gpu = state}));
}

cudaError_t cudaHostAlloc(void** memory, std::size_t size, unsigned) {
  *memory = nullptr;
  if (const auto status = entered()) return said(status);
  if (const auto status = refused_while_capturing()) return said(status);
  if (size == 0) return cudaSuccess;
  return said(allocated(memory, {.size = std::int64_t(size), .place = Place::Pinned, .gpu = gpu(current_device())}));
}

cudaError_t cudaFree(void* memory) {
  if (is_in_host_function()) return said(cudaErrorNotPermitted);
  if (const auto status = refused_while_capturing()) return said(status);
  return said(freed(memory, Place::Device));
}
cudaError_t cudaFreeHost(void* memory) {
  if (is_in_host_function()) return said(cudaErrorNotPermitted);
  if (const auto status = refused_while_capturing()) return said(status);
  return said(freed(memory, Place::Pinned));
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  if (const auto status = entered()) return said(status);
  const auto state = gpu(current_device());
  const std::lock_guard lock(state->mutex);
  *total = std::size_t(state->facts.memory);
  *free = std::size_t(state->facts.memory - kContextBytes - state->allocated);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  if (const auto status = entered()) return said(status);
  const Location location = locate(address);
  *attributes = {};
  attributes->type = location.place == Place::Device   ? cudaMemoryTypeDevice
                     : location.place == Place::Pinned ? cudaMemoryTypeHost
                                                       : cudaMemoryTypeUnregistered;
  attributes->device = location.device;
  return cudaSuccess;
}

}  // extern "C"

/// Of one GPU, by all of this process: what the fake NVML (tests/fakes/nvml.cpp) adds to the memory in use.
extern "C" long long gpuplan_fake_cuda_bytes_in_use(int device) {
  const auto state = gpu(device);
  if (!state) return 0;
  const std::lock_guard lock(state->mutex);
  return state->allocated + (state->has_context ? kContextBytes : 0);
}
