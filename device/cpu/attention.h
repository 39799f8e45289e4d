// Attention on the CPU device: one kernel, or two products and a softmax.
#pragma once

#include "device/cpu/gemm.h"

namespace gpuplan {

/// Runs on the calling thread's team and returns when `out` is written.
void cpu_attention(const AttentionProblem& problem, const void* q, const void* k, const void* v, void* out,
                   void* scores, CpuGemm& gemm);

}  // namespace gpuplan
