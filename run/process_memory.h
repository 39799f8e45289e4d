// What a rank holds where its tensors lie: on a CPU in the host's memory, libraries included; on a GPU there, with
// CUDA's context, NCCL and workspaces. The row "process" of predicted against measured.
#pragma once

#include "device/device.h"

namespace gpuplan {

class ProcessMemory {
 public:
  /// Before the device is opened.
  ProcessMemory();
  /// Right after: the first reading of a GPU.
  void opened(const Device& device);
  /// So far. CPU: growth of the highest resident memory. GPU: the context, and by how much free memory has fallen since
  /// it was opened; what other processes allocate there meanwhile counts with it, what they free does not make it less
  /// than `held`, this rank's buffers, and the device's overhead.
  Bytes now(const Device& device, Bytes held) const;

 private:
  Bytes resident_, context_, free_;
};

/// Highest resident memory of this process so far (VmHWM).
Bytes peak_resident_bytes();

}  // namespace gpuplan
