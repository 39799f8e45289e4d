// Every call of CUDA and cuBLASLt goes through here: what failed becomes an EnvError that says what was being done.
#pragma once

#include <string>
#include <string_view>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "base/error.h"

namespace gpuplan::cuda {

[[noreturn]] inline void throw_cuda_error(cudaError_t status, std::string_view doing) {
  cudaGetLastError();  // so that an error that passes is not reported again by the next call
  throw EnvError("CUDA: " + std::string(doing) + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) + ")");
}

/// `doing`: "copying to the device".
inline void cuda_check(cudaError_t status, std::string_view doing) {
  if (status != cudaSuccess) throw_cuda_error(status, doing);
}

inline void cublas_check(cublasStatus_t status, std::string_view doing) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw EnvError("cuBLASLt: " + std::string(doing) + ": " + cublasLtGetStatusString(status));
}

}  // namespace gpuplan::cuda
