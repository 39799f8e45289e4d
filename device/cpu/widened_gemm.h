// Products of 16-bit matrices on a processor that multiplies fp32 alone: oneDNN has no bf16 product below AVX-512
// BF16, and no fp16 product below AVX-512 FP16.
#pragma once

#include "device/device.h"

namespace gpuplan {

/// C = alpha A B (+ C) for bf16 or fp16 operands: blocks of A and B are converted to fp32 and multiplied there. Sums
/// are fp32 over all of k, as they are in oneDNN's own 16-bit products, and an element of a 16-bit C is rounded once.
/// Blocks are cut by shape alone, so that the same product gives the same bits each time. `scratch` grows to 5 MiB at
/// most and is kept by the caller. Throws EnvError when memory for it is missing or oneDNN fails.
void widened_gemm(const GemmProblem& problem, const void* a, const void* b, void* c, Buffer& scratch);

}  // namespace gpuplan
