// The attention of training on the device under test: a GPU's (gpu/), or the emulator's (emulated/).
#pragma once

#include "device/device.h"
#include "device/training_kernels.h"

namespace gpuplan::test {

struct AttentionTensors {
  void *q{}, *k{}, *v{}, *out{};
  float* lse{};
  void *dout{}, *dq{}, *dk{}, *dv{};
  float* scratch{};
};

/// False when the device refuses the shape.
bool run_attention_forward(const SequenceAttention& shape, const AttentionTensors& tensors, Device& device,
                           Stream& stream);
bool run_attention_backward(const SequenceAttention& shape, const AttentionTensors& tensors, Device& device,
                            Stream& stream);

}  // namespace gpuplan::test
