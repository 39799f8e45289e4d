// Products of a linear with a bias: in one pass where the device has one, else as a product and a kernel.
#pragma once

#include "device/device.h"
#include "device/training_kernels.h"

namespace gpuplan {

/// The product with a bias [n] added to every row of C [m, n]. Requires: batch 1.
inline void gemm_and_bias(Device& device, const GemmProblem& p, const void* a, const void* b, void* c,
                          ConstNumbers bias, Stream& stream) {
  if (device.try_gemm_with_bias(p, a, b, c, bias.data, bias.dtype, stream)) return;
  device.gemm(p, a, b, c, stream);
  device.training()->add_bias({c, p.output}, bias, p.m, p.n, stream);
}

/// The gradients of a weight and its bias [m], which is the column sums of A = dy [k, m]: both are added to what is
/// there when the problem accumulates, and replace it otherwise. Requires: GemmLayout::WeightGradient, batch 1,
/// alpha 1.
inline void gemm_and_bias_gradient(Device& device, const GemmProblem& p, const void* a, const void* b, void* c,
                                   Numbers gradient, Stream& stream) {
  if (device.try_gemm_with_bias_gradient(p, a, b, c, gradient.data, gradient.dtype, stream)) return;
  TrainingKernels& kernels = *device.training();
  device.gemm(p, a, b, c, stream);
  if (!p.accumulates) kernels.zero(gradient.data, bytes_of(p.m, gradient.dtype), stream);
  kernels.bias_backward(gradient, {a, operand_dtype(p.type)}, p.k, p.m, stream);
}

}  // namespace gpuplan
