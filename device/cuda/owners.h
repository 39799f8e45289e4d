// Owners of what CUDA hands out: each gives its thing back. Destructors ignore errors; a lost device has said so
// to somebody else already.
#pragma once

#include <memory>
#include <type_traits>

#include "device/cuda/check.h"

namespace gpuplan::cuda {

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
