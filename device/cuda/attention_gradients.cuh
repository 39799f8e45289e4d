// What the backward kernels of attention share.
#pragma once

#include "device/cuda/attention_products.cuh"

namespace gpuplan::cuda {

/// What the kernels below read.
template <class T>
struct Inputs {
  const T *q, *k, *v, *dout;
  const float *lse, *delta;  // [batch, heads, seq]
};

constexpr int kStep = 16,
              kNumScores = kStep / 8;  // rows of a tile at a time: the sums leave no registers for scores of more

}  // namespace gpuplan::cuda
