#include "cuda_device/kernels/attention_under_test.h"

#include "device/cuda/sequence_attention.h"

namespace gpuplan::test {

bool run_attention_forward(const SequenceAttention& shape, const AttentionTensors& t, Device&, Stream&) {
  return cuda::launch_sequence_attention(shape, t.q, t.k, t.v, t.out, t.lse, nullptr) == cudaSuccess;
}
bool run_attention_backward(const SequenceAttention& shape, const AttentionTensors& t, Device&, Stream&) {
  return cuda::launch_sequence_attention_backward(shape, t.dout, t.q, t.k, t.v, t.out, t.lse, t.dq, t.dk, t.dv,
                                                  t.scratch, nullptr) == cudaSuccess;
}

}  // namespace gpuplan::test
