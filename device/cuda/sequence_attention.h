// Attention as training runs it (device/training_kernels.h: SequenceAttention): launchers that enqueue and return what
// the launch said. Included by .cu files too, so without fmt.
#pragma once

#include <cuda_runtime_api.h>

#include "device/training_kernels.h"

namespace gpuplan::cuda {

/// bf16 on tensor cores (sm_80 on), fp32 on CUDA cores; O(seq) memory, tiles that causality or the window hides are
/// skipped. Any head size up to 256 whose tiles fit the GPU's shared memory (attention_tiles.cuh: all from sm_80 on;
/// sm_75 has up to 128). Anything else gives cudaErrorInvalidValue. Head sizes of a multiple of 16 bytes at addresses
/// aligned to them are read in vectors.
cudaError_t launch_sequence_attention(const SequenceAttention& shape, const void* q, const void* k, const void* v,
                                      void* out, float* lse, cudaStream_t stream);

/// Gradients of q, k, v, summed in a fixed order. `scratch`: fp32, as many as q has elements.
cudaError_t launch_sequence_attention_backward(const SequenceAttention& shape, const void* dout, const void* q,
                                               const void* k, const void* v, const void* out, const float* lse,
                                               void* dq, void* dk, void* dv, float* scratch, cudaStream_t stream);

}  // namespace gpuplan::cuda
