// GPUs opened by this process: what they are, how much of their memory is free or in use, which libraries drive them,
// and what belongs to the process and not to one Device object: contexts, memory held, peer access.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "device/cuda/capability.h"

namespace gpuplan::cuda {

/// The part of `cudaGetDeviceProperties` that we use.
struct GpuIdentity {
  int index{};
  std::string name, bus_id;
  ComputeCapability capability;
  Bytes memory;
  std::int64_t num_multiprocessors{};
};

/// Throw EnvError: no driver, a driver older than this build, no such GPU, no kernels for it.
int count_gpus();
GpuIdentity identify_gpu(int index);

Bytes free_memory();  // of the current device
std::vector<std::pair<std::string, std::string>> library_versions();

/// Memory in use as NVML counts it: unlike cudaMemGetInfo it can be asked before there is a context, so that the
/// difference is the context itself. NVML is opened at run time; empty where it cannot be. `bus_id` as
/// cudaDeviceGetPCIBusId gives it.
std::optional<Bytes> memory_in_use(const std::string& bus_id);

/// Release of the kernel module, "580.65.06"; empty when not known.
std::string driver_release();

/// Memory held in pieces; they may come and go on any thread.
class HeldMemory {
 public:
  void add(Bytes size) { held_ += size.count; }
  void remove(Bytes size) { held_ -= size.count; }
  Bytes now() const { return {held_.load()}; }

 private:
  std::atomic<std::int64_t> held_{0};
};

/// Growth of the memory in use when the GPU was first opened. Not exact without NVML: then it is all that was in use
/// after it.
struct OpeningCost {
  Bytes memory;
  bool is_exact{};
};

class OpenedGpu {
 public:
  HeldMemory buffers, workspaces;
  /// Calls `first_use`, which makes the context and loads what is needed, and says what that took the first time.
  OpeningCost open(const GpuIdentity& gpu, const std::function<void()>& first_use);

 private:
  std::mutex mutex_;
  std::optional<OpeningCost> cost_;
};

std::shared_ptr<OpenedGpu> opened_gpu(int index);

/// Lets the GPUs that two addresses are on copy directly, where they can. Does nothing while one GPU is open.
void connect_peers(const void* to, const void* from);

}  // namespace gpuplan::cuda
