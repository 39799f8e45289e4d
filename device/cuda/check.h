// The check of every call of CUDA, which makes an EnvError of a failure that says what was being done, and owners of
// what CUDA hands out. Destructors ignore errors: a lost device has been reported by another call already.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

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

/// Says whether the work asked about is under way. CUDA remembers that as an error, which the next launch would be
/// told: it is taken back.
inline bool is_under_way(cudaError_t status) {
  if (status != cudaErrorNotReady) return false;
  cudaGetLastError();
  return true;
}

template <class Handle, auto destroy>
struct Destroyer {
  using pointer = Handle;
  void operator()(Handle handle) const { static_cast<void>(destroy(handle)); }
};
template <class Handle, auto destroy>
using Owner = std::unique_ptr<std::remove_pointer_t<Handle>, Destroyer<Handle, destroy>>;

using StreamOwner = Owner<cudaStream_t, &cudaStreamDestroy>;
using EventOwner = Owner<cudaEvent_t, &cudaEventDestroy>;
using GraphOwner = Owner<cudaGraph_t, &cudaGraphDestroy>;
using GraphExecOwner = Owner<cudaGraphExec_t, &cudaGraphExecDestroy>;
using DeviceMemory = std::unique_ptr<void, Destroyer<void*, &cudaFree>>;

}  // namespace gpuplan::cuda
