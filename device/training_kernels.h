// What a training step needs of a device beside products, copies and the loss: forward and backward kernels of a
// Llama-like decoder, gradient sums, optimizers. `Device::training` gives them; the executor (run/) is their only
// caller.
//
// As in Device: calls are enqueued on a stream, pointers are of device memory, nothing is checked against its buffer. A
// kernel gets all its memory through its arguments, but for what fits a core's stack or cache, or on a GPU the scratch
// memory that a stream has for products (8 MiB of it, for sums in two stages). `Numbers` are F32 or BF16, sums and
// intermediate values always fp32. "Adds" means to what is there; into bf16 each addition of a kernel is rounded once,
// but for an id that comes several times in embed_backward. Sums run in a fixed order: same input, same bits; on a CPU
// for any number of threads, but not for any instruction set. Numbers that a comment does not call another's dtype may
// be of either, but x, y and their gradients in norms, rotation and swiglu are of one.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/units.h"

namespace gpuplan {

class Stream;

/// Numbers in device memory.
struct Numbers {
  void* data = nullptr;
  Dtype dtype = Dtype::F32;
};
struct ConstNumbers {
  const void* data = nullptr;
  Dtype dtype = Dtype::F32;
  ConstNumbers() = default;
  ConstNumbers(const void* at, Dtype type) : data(at), dtype(type) {}
  ConstNumbers(Numbers numbers) : data(numbers.data), dtype(numbers.dtype) {}  // NOLINT: a view of it
};

/// Causal self-attention over sequences as linears write them: q and out [batch, seq, heads, head_size], k and v
/// [batch, seq, kv_heads, head_size]; heads / kv_heads query heads share a key head. Scores are q k^T /
/// sqrt(head_size).
struct SequenceAttention {
  std::int64_t batch = 1, seq{}, heads{}, kv_heads{}, head_size{};
  std::int64_t window =
      0;  // of a sliding window: a query sees the last `window` keys, itself included; 0: all before it
  Dtype dtype = Dtype::F32;
};

/// Rotation of pairs (i, i + rotary / 2) of each head, as Hugging Face's rotate_half has it; the rest of a head passes.
struct RotaryTurn {
  std::int64_t batch = 1, seq{}, heads{}, head_size{}, rotary{};
  const float* cosine{};  // [seq, rotary / 2], device memory
  const float* sine{};
  bool is_inverse = false;  // backward
};

/// AdamW on one range of parameters. m and v are F32, or of the weight's dtype.
struct AdamWRange {
  Numbers weight;
  ConstNumbers gradient;
  Numbers m, v;
  std::int64_t count{};
};

/// The same with states of 8 bits: per 256 parameters one absmax. Codes index the maps of bitsandbytes' dynamic
/// quantisation. Source: Dettmers et al. 2022 (arXiv 2110.02861), bitsandbytes functional.py create_dynamic_map.
struct AdamW8Range {
  Numbers weight;
  ConstNumbers gradient;
  std::uint8_t *m{}, *v{};         // signed and unsigned map
  float *m_absmax{}, *v_absmax{};  // [ceil(count / 256)]
  std::int64_t count{};
};

struct AdamW;  // device/device.h

class TrainingKernels {
 public:
  virtual ~TrainingKernels() = default;

  virtual void zero(void* data, Bytes size, Stream& stream) = 0;
  /// y = a + b; y may be a or b.
  virtual void add(Numbers y, ConstNumbers a, ConstNumbers b, std::int64_t count, Stream& stream) = 0;
  /// y += factor x.
  virtual void add_scaled(Numbers y, ConstNumbers x, float factor, std::int64_t count, Stream& stream) = 0;

  /// y [rows, hidden] = table rows named by `ids` [rows], which are inside the vocabulary.
  virtual void embed(Numbers y, ConstNumbers table, const std::int32_t* ids, std::int64_t rows, std::int64_t hidden,
                     Stream& stream) = 0;
  /// Adds dy [rows, hidden] to the named rows of `gradient` [vocab, hidden].
  virtual void embed_backward(Numbers gradient, ConstNumbers dy, const std::int32_t* ids, std::int64_t rows,
                              std::int64_t hidden, Stream& stream) = 0;

  /// y [rows, width] += bias [width].
  virtual void add_bias(Numbers y, ConstNumbers bias, std::int64_t rows, std::int64_t width, Stream& stream) = 0;
  /// Adds the column sums of dy [rows, width] to `gradient` [width].
  virtual void bias_backward(Numbers gradient, ConstNumbers dy, std::int64_t rows, std::int64_t width,
                             Stream& stream) = 0;

  /// y = x / sqrt(mean(x^2) + epsilon) * weight, by row of [rows, hidden]. The weight may be of another dtype than x
  /// and y.
  virtual void rms_norm_forward(Numbers y, ConstNumbers x, ConstNumbers weight, std::int64_t rows, std::int64_t hidden,
                                float epsilon, Stream& stream) = 0;
  /// dx = residual + d loss / d x, where `residual` (null: 0) may be dx itself. Adds to weight_gradient [hidden] unless
  /// null.
  virtual void rms_norm_backward(Numbers dx, const void* residual, Numbers weight_gradient, ConstNumbers dy,
                                 ConstNumbers x, ConstNumbers weight, std::int64_t rows, std::int64_t hidden,
                                 float epsilon, Stream& stream) = 0;

  /// y may be x.
  virtual void rotate(Numbers y, ConstNumbers x, const RotaryTurn& rotation, Stream& stream) = 0;

  /// out, and lse [batch, heads, seq]: the log of the sum of exponentials of each query's scores.
  virtual void attention_forward(const SequenceAttention& shape, const void* q, const void* k, const void* v, void* out,
                                 float* lse, Stream& stream) = 0;
  /// Gradients of q, k, v. `scratch`: fp32, as many as q has elements.
  virtual void attention_backward(const SequenceAttention& shape, const void* dout, const void* q, const void* k,
                                  const void* v, const void* out, const float* lse, void* dq, void* dk, void* dv,
                                  float* scratch, Stream& stream) = 0;

  /// out = silu(gate) up; and its gradients, where dgate may be gate and dup may be up.
  virtual void swiglu_forward(Numbers out, ConstNumbers gate, ConstNumbers up, std::int64_t count, Stream& stream) = 0;
  virtual void swiglu_backward(Numbers dgate, Numbers dup, ConstNumbers dout, ConstNumbers gate, ConstNumbers up,
                               std::int64_t count, Stream& stream) = 0;

  /// Adds the sum of squares of x to *sum, a double in device memory.
  virtual void add_squares(double* sum, ConstNumbers x, std::int64_t count, Stream& stream) = 0;
  /// Adds the sum of x to *sum.
  virtual void add_sum(double* sum, const float* x, std::int64_t count, Stream& stream) = 0;

  virtual void adamw_step(const AdamWRange& range, const AdamW& with, float gradient_scale, Stream& stream) = 0;
  virtual void adamw8_step(const AdamW8Range& range, const AdamW& with, float gradient_scale, Stream& stream) = 0;

  /// NF4 with double quantisation: absmax of block b is offset + level(absmax_codes[b]) x absmax_scales[b / 256], where
  /// level is the signed dynamic map. Without (absmax_codes null): absmax_scales[b].
  virtual void nf4_expand(Numbers out, const std::uint8_t* codes, const std::uint8_t* absmax_codes,
                          const float* absmax_scales, float absmax_offset, std::int64_t count, Stream& stream) = 0;
};

}  // namespace gpuplan
