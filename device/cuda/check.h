// Every call of CUDA goes through here: what failed becomes an EnvError that says what was being done.
#pragma once

#include <string>
#include <string_view>

#include <cuda_runtime_api.h>

#include "base/error.h"

namespace gpuplan::cuda {

[[noreturn]] inline void throw_cuda_error(cudaError_t status, std::string_view doing) {
  cudaGetLastError();  // so that an error that passes is not reported again by the next call
  throw EnvError("CUDA: " + std::string(doing) + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) +
                 ")");
}

/// `doing`: "copying to the device".
inline void cuda_check(cudaError_t status, std::string_view doing) {
  if (status != cudaSuccess) throw_cuda_error(status, doing);
}

/// Whether what was asked about is under way. CUDA remembers that as an error, which the next launch would be told: it
/// is taken back.
inline bool is_under_way(cudaError_t status) {
  if (status != cudaErrorNotReady) return false;
  cudaGetLastError();
  return true;
}

}  // namespace gpuplan::cuda
