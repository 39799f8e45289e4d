// What this process has opened, by GPU: contexts and peer access belong to the process, not to one Device object.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "base/units.h"
#include "device/cuda/context.h"

namespace gpuplan::cuda {

/// Memory held in pieces; they may come and go on any thread.
class HeldMemory {
 public:
  void add(Bytes size) { held_ += size.count; }
  void remove(Bytes size) { held_ -= size.count; }
  Bytes now() const { return {held_.load()}; }

 private:
  std::atomic<std::int64_t> held_{0};
};

/// What memory in use grew by when the GPU was first opened. Not exact without NVML: then it is all that was in use
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
