#include "cuda_device/kernels/attention_under_test.h"

#include "base/error.h"

namespace gpuplan::test {
namespace {

template <class Run>
bool is_taken(Run run) {
  try {
    run();
    return true;
  } catch (const EnvError&) { return false; }
}

}  // namespace

bool run_attention_forward(const SequenceAttention& shape, const AttentionTensors& t, Device& device, Stream& stream) {
  return is_taken([&] { device.training()->attention_forward(shape, t.q, t.k, t.v, t.out, t.lse, stream); });
}
bool run_attention_backward(const SequenceAttention& shape, const AttentionTensors& t, Device& device, Stream& stream) {
  return is_taken([&] {
    device.training()->attention_backward(shape, t.dout, t.q, t.k, t.v, t.out, t.lse, t.dq, t.dk, t.dv, t.scratch,
                                          stream);
  });
}

}  // namespace gpuplan::test
