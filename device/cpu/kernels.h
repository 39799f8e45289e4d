// The kernels of the CPU device: plain functions over memory, each running on the calling thread's OpenMP team. A table
// of them exists per instruction set; `cpu_kernels` is the best that this processor runs.
#pragma once

#include <cstdint>

#include "device/adamw_step.h"
#include "device/device.h"

namespace gpuplan {

/// Arguments as in Device, without the stream and with what is derived from settings alone done before. Unsupported
/// dtypes throw BugError before any work.
struct CpuKernels {
  void (*fill_uniform)(void* to, std::int64_t count, Dtype dtype, float low, float high, std::uint64_t seed);
  void (*cast)(void* to, Dtype to_dtype, const void* from, Dtype from_dtype, std::int64_t count);
  void (*rms_norm)(void* y, const void* x, const void* weight, std::int64_t rows, std::int64_t hidden, float epsilon,
                   Dtype dtype);
  void (*swiglu)(void* out, const void* gate, const void* up, std::int64_t count, Dtype dtype);
  void (*cross_entropy)(void* logits, const std::int32_t* labels, float* losses, std::int64_t rows, std::int64_t vocab,
                        float scale, Dtype dtype);
  void (*adamw)(float* weight, const void* gradient, Dtype gradient_dtype, float* m, float* v, std::int64_t count,
                const AdamWStep& step);
  void (*nf4_dequantise)(void* out, Dtype dtype, const std::uint8_t* codes, const float* absmax, std::int64_t count);
  /// In place: rows of `keys` scores become probabilities. Row r is query r % problem.queries; what it must not see
  /// becomes 0.
  void (*softmax)(void* scores, const AttentionProblem& problem);
  void (*flash_attention)(const AttentionProblem& problem, const void* q, const void* k, const void* v, void* out);
};

const CpuKernels& cpu_kernels();

/// memcpy; large ones by all threads of the team.
void parallel_copy(void* to, const void* from, std::int64_t size);
/// memset to 0, likewise.
void parallel_zero(void* to, std::int64_t size);

}  // namespace gpuplan
