// Attention as the kernels see it. Plain C++, so that it is tested without a GPU.
#pragma once

#include <string>

#include "device/cuda/capability.h"
#include "device/device.h"

namespace gpuplan::cuda {

inline constexpr std::int64_t kLargestFlashHead =
    128;  // that fits the shared memory of every GPU; training asks the launcher itself

/// Why the flash kernel cannot run this; empty when it can. Tensor cores work on 16 x 16 tiles; fp32 runs on the plain
/// cores.
inline std::string flash_obstacle(const AttentionProblem& p, ComputeCapability gpu) {
  if (p.dtype != Dtype::F32 && p.dtype != Dtype::F16 && p.dtype != Dtype::BF16)
    return "flash attention takes fp32, fp16 and bf16, not " + std::string(to_string(p.dtype));
  if (p.head_size <= 0 || p.head_size % 16 != 0 || p.head_size > kLargestFlashHead)
    return "flash attention takes head sizes that are multiples of 16 up to 128, not " + std::to_string(p.head_size) +
           ": use the eager kernel";
  if (p.dtype == Dtype::BF16 && !multiplies(gpu, GemmType::BF16))
    return architecture_name(gpu) + " has no tensor cores for bf16";
  return {};
}

}  // namespace gpuplan::cuda
