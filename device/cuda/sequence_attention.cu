#include "device/cuda/sequence_attention.h"

namespace gpuplan::cuda {

cudaError_t launch_sequence_attention(const SequenceAttention&, const void*, const void*, const void*, void*, float*, cudaStream_t) {
  return cudaErrorNotSupported;
}

cudaError_t launch_sequence_attention_backward(const SequenceAttention&, const void*, const void*, const void*, const void*, const void*,
                                               const float*, void*, void*, void*, float*, cudaStream_t) {
  return cudaErrorNotSupported;
}

}  // namespace gpuplan::cuda
