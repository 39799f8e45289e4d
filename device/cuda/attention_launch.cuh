// Which kernel of attention is for a shape, a dtype and this GPU.
#pragma once

#include <type_traits>

#include "device/cuda/number.cuh"

namespace gpuplan::cuda {

/// Lets a kernel have more dynamic shared memory than the 48 KiB that each may have. cudaErrorInvalidValue: more than
/// the GPU has.
template <class Kernel>
cudaError_t allow_shared_memory(Kernel* kernel, int bytes) {
  if (bytes <= 48 * 1024) return cudaSuccess;
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                              bytes);
}

/// The first number of the compute capability of this thread's GPU; 0 when it does not say.
inline int capability_major() {
  int device = 0, major = 0;
  const bool is_known = cudaGetDevice(&device) == cudaSuccess &&
                        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess;
  return is_known ? major : 0;
}
/// Whether that GPU has the instructions that T's kernels are made of; as kHasTensorCores says while compiling for it.
template <class T>
bool has_instructions() {
  return !std::is_same_v<T, Bf16> || capability_major() >= 8;
}

/// Calls `launch` with a null pointer of a dtype's type that training has.
template <class Launch>
cudaError_t with_training_type(Dtype dtype, Launch launch) {
  if (dtype == Dtype::F32) return launch(static_cast<float*>(nullptr));
  if (dtype == Dtype::BF16) return launch(static_cast<Bf16*>(nullptr));
  return cudaErrorInvalidValue;
}

/// Calls `launch` with the least number of columns, as a type, that kernels are compiled for and that holds the head.
template <class Launch>
cudaError_t with_padded_head(int head_size, Launch launch) {
  if (head_size <= 0 || head_size > 256) return cudaErrorInvalidValue;
  if (head_size <= 64) return launch(std::integral_constant<int, 64>{});
  if (head_size <= 128) return launch(std::integral_constant<int, 128>{});
  return launch(std::integral_constant<int, 256>{});
}

}  // namespace gpuplan::cuda
