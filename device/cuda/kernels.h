// The kernels' launchers: they enqueue and return what the launch said. Included by .cu files too, so without fmt.
// Dtypes that a kernel does not take give cudaErrorInvalidValue.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "base/dtype.h"

namespace gpuplan {
struct AdamWStep;  // device/adamw_step.h
}

namespace gpuplan::cuda {

cudaError_t launch_empty(cudaStream_t stream);
cudaError_t launch_fill_uniform(void* to, std::int64_t count, Dtype dtype, float low, float high, std::uint64_t seed,
                                cudaStream_t stream);
/// To fp8: rounded to nearest even, and what is too large becomes the largest finite value.
cudaError_t launch_cast(void* to, Dtype to_dtype, const void* from, Dtype from_dtype, std::int64_t count,
                        cudaStream_t stream);
cudaError_t launch_swiglu(void* out, const void* gate, const void* up, std::int64_t count, Dtype dtype,
                          cudaStream_t stream);

cudaError_t launch_nf4_dequantise(void* out, Dtype dtype, const std::uint8_t* codes, const float* absmax,
                                  std::int64_t count, cudaStream_t stream);
/// Whose absmax is quantised itself (device/training_kernels.h: nf4_expand).
cudaError_t launch_nf4_expand(void* out, Dtype dtype, const std::uint8_t* codes, const std::uint8_t* absmax_codes,
                              const float* absmax_scales, float absmax_offset, std::int64_t count, cudaStream_t stream);

cudaError_t launch_adamw(float* weight, const void* gradient, Dtype gradient_dtype, float* m, float* v,
                         std::int64_t count, const AdamWStep& step, cudaStream_t stream);

cudaError_t launch_rms_norm(void* y, const void* x, Dtype dtype, const void* weight, Dtype weight_dtype,
                            std::int64_t rows, std::int64_t hidden, float epsilon, cudaStream_t stream);
cudaError_t launch_cross_entropy(void* logits, const std::int32_t* labels, float* losses, std::int64_t rows,
                                 std::int64_t vocab, const float* scale, Dtype dtype, cudaStream_t stream);
/// Softmax of each row of [blocks, queries, keys] in place; causal: row i of a block sees columns up to i + keys -
/// queries, and what it does not see becomes 0.
cudaError_t launch_softmax(void* scores, std::int64_t blocks, std::int64_t queries, std::int64_t keys, bool is_causal,
                           Dtype dtype, cudaStream_t stream);

/// As AttentionProblem says it, or SequenceAttention when the heads lie within the rows of a sequence. Any head size up
/// to 256 whose tiles fit the GPU's shared memory (attention_tiles.cuh); bf16 from sm_80 on; others give
/// cudaErrorInvalidValue.
struct FlashShape {
  std::int64_t batch{}, heads{}, kv_heads{}, queries{}, keys{};
  int head_size{};
  bool is_causal{};
  bool has_heads_within_rows =
      false;                // [batch, queries, heads, head_size], not [batch, heads, queries, head_size]; keys alike
  std::int64_t window = 0;  // a causal query sees the last `window` of its keys; 0: all of them
};
cudaError_t launch_flash(const FlashShape& shape, Dtype dtype, const void* q, const void* k, const void* v, void* out,
                         cudaStream_t stream);

}  // namespace gpuplan::cuda
