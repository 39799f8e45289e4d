// The list of kernels that every device has: one struct per kernel, whose fields are its arguments. Device::run
// enqueues them; the executor of `run` and the probes of `calibrate` use the same ones. A new kernel is a struct here
// and its name in GPUPLAN_KERNELS; device/cpu/kernels and device/cuda implement it.
//
// Pointers are of device memory; nothing is checked against its buffer; counts are elements. Sums and intermediate
// values are fp32, and run in a fixed order: same input, same bits; on a CPU for any number of threads, but not for any
// instruction set. "Adds" means to what is there. Numbers are F32 or BF16 unless said otherwise, and the numbers of one
// kernel may differ in dtype unless said otherwise. Plain C++ without fmt, for .cu files too.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/dtype.h"
#include "base/random_bits.h"
#include "base/units.h"

namespace gpuplan {

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

/// The label of a row that counts for nothing, in loss and gradient.
inline constexpr std::int32_t kIgnoredLabel = -100;

/// Causal self-attention over sequences as linears write them: q and out are [batch, seq, heads, head_size], k and v
/// [batch, seq, kv_heads, head_size]; heads / kv_heads query heads share a key head. Scores are q k^T /
/// sqrt(head_size).
struct AttentionShape {
  std::int64_t batch = 1, seq{}, heads{}, kv_heads{}, head_size{};
  std::int64_t window = 0;  // a query sees the last `window` keys, itself included; 0: all before it
  Dtype dtype = Dtype::F32;

  std::int64_t elements() const { return batch * seq * heads * head_size; }  // of q
  /// Multiplications and additions of both products, of the full square whatever the mask.
  double flops() const { return 4.0 * double(batch * heads) * double(seq) * double(seq) * double(head_size); }
};

/// Rotation of pairs (i, i + rotary / 2) of each head, as Hugging Face's rotate_half has it; the rest of a head passes.
struct RotaryTurn {
  std::int64_t batch = 1, seq{}, heads{}, head_size{}, rotary{};
  const float* cosine{};  // [seq, rotary / 2], device memory
  const float* sine{};
  bool is_inverse = false;  // backward
};

/// AdamW with decoupled weight decay; `step` counts from 1 (bias correction).
struct AdamW {
  float learning_rate = 1e-3F, beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F, weight_decay = 0;
  std::int64_t step = 1;
};

/// The factors of one AdamW step, which depend on its settings alone:
///   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,  w = w decay - rate m / (sqrt(v) root + epsilon)
/// which is AdamW with m / (1 - beta1^step) and v / (1 - beta2^step). Source: Loshchilov & Hutter 2019, algorithm 2.
struct AdamWStep {
  float beta1{}, beta2{}, epsilon{};
  float decay{};  // 1 - learning rate x weight decay
  float rate{};   // learning rate / (1 - beta1^step)
  float root{};   // 1 / sqrt(1 - beta2^step)
};
inline AdamWStep adamw_step(const AdamW& with) {
  const double bias1 = 1 - std::pow(double(with.beta1), double(with.step)),
               bias2 = 1 - std::pow(double(with.beta2), double(with.step));
  return {.beta1 = with.beta1,
          .beta2 = with.beta2,
          .epsilon = with.epsilon,
          .decay = float(1 - double(with.learning_rate) * double(with.weight_decay)),
          .rate = float(double(with.learning_rate) / bias1),
          .root = float(1 / std::sqrt(bias2))};
}

/// Element `index` of FillUniform, in [low, high), before it is rounded to the dtype that is stored. It depends on seed
/// and index alone. The 24 upper bits are a float in [0, 1) without rounding; one fused multiply-add, asked for by
/// name, leaves no choice to the compiler.
GPUPLAN_HOST_DEVICE inline float uniform(std::uint64_t seed, std::uint64_t index, float low, float high) {
  const float unit = float(std::int32_t(random_bits(seed, index) >> 40)) * 0x1p-24F;
  const float value = fmaf(unit, high - low, low);
  return value < high ? value : low;  // rounded up to `high`: once in 2^24 at most
}

namespace kernels {

constexpr std::int64_t kAllRows = std::numeric_limits<std::int64_t>::max();

/// Does nothing: what launching costs.
struct Empty {};

/// uniform(seed, i, low, high). F8E4M3 and F16 too.
struct FillUniform {
  Numbers to;
  std::int64_t count{};
  float low{}, high{};
  std::uint64_t seed{};
};

/// Rounds to nearest even. F8E4M3 and F16 too.
struct Cast {
  Numbers to;
  ConstNumbers from;
  std::int64_t count{};
};

struct Zero {
  void* data{};
  Bytes size;
};

/// y = a + b; y may be a or b.
struct Add {
  Numbers y;
  ConstNumbers a, b;
  std::int64_t count{};
};

/// y += factor x.
struct AddScaled {
  Numbers y;
  ConstNumbers x;
  float factor{};
  std::int64_t count{};
};

/// y [rows, hidden] = table rows named by `ids` [rows], which are inside the vocabulary.
struct Embed {
  Numbers y;
  ConstNumbers table;
  const std::int32_t* ids{};
  std::int64_t rows{}, hidden{};
  std::int64_t first = 0, held = kAllRows;  // of the vocabulary, that the table has; a row of zeros for any other id
};

/// Adds dy [rows, hidden] to the named rows of `gradient` [vocab, hidden]. Into bf16 an id that comes several times may
/// be rounded each time.
struct EmbedBackward {
  Numbers gradient;
  ConstNumbers dy;
  const std::int32_t* ids{};
  std::int64_t rows{}, hidden{};
  std::int64_t first = 0, held = kAllRows;  // as of Embed; what is of other ids is left out
};

/// y [rows, width] += bias [width].
struct AddBias {
  Numbers y;
  ConstNumbers bias;
  std::int64_t rows{}, width{};
};

/// Adds the column sums of dy [rows, width] to `gradient` [width].
struct BiasBackward {
  Numbers gradient;
  ConstNumbers dy;
  std::int64_t rows{}, width{};
};

/// y = x / sqrt(mean(x^2) + epsilon) * weight, by row of [rows, hidden]. x and y are of one dtype; F16 too, where all
/// are.
struct RmsNorm {
  Numbers y;
  ConstNumbers x, weight;
  std::int64_t rows{}, hidden{};
  float epsilon{};
};

/// dx = residual + d loss / d x, where `residual` (null: 0) may be dx itself. Adds to weight_gradient [hidden] unless
/// null. dx, residual, dy and x are of one dtype.
struct RmsNormBackward {
  Numbers dx;
  const void* residual{};
  Numbers weight_gradient;
  ConstNumbers dy, x, weight;
  std::int64_t rows{}, hidden{};
  float epsilon{};
};

/// y may be x; both are of one dtype.
struct Rotate {
  Numbers y;
  ConstNumbers x;
  RotaryTurn turn;
};

/// Without a matrix of scores in memory. `lse` [batch, heads, seq], the log of the sum of exponentials of each query's
/// scores, may be null. F16 too.
struct Attention {
  AttentionShape shape;
  const void *q{}, *k{}, *v{};
  void* out{};
  float* lse{};
};

/// Gradients of q, k, v. `scratch`: fp32, as many as q has elements.
struct AttentionBackward {
  AttentionShape shape;
  const void *dout{}, *q{}, *k{}, *v{}, *out{};
  const float* lse{};
  void *dq{}, *dk{}, *dv{};
  float* scratch{};
};

/// Softmax in place of each row of [blocks, queries, keys]. Causal: row i of a block sees columns up to i + keys -
/// queries; what it does not see becomes 0. F16 too.
struct Softmax {
  Numbers scores;
  std::int64_t blocks{}, queries{}, keys{};
  bool is_causal = true;
};

/// out = silu(gate) up, all of one dtype; F16 too.
struct SwiGlu {
  Numbers out;
  ConstNumbers gate, up;
  std::int64_t count{};
};

/// dgate may be gate and dup may be up; all of one dtype.
struct SwiGluBackward {
  Numbers dgate, dup;
  ConstNumbers dout, gate, up;
  std::int64_t count{};
};

/// Loss and, in place of the logits [rows, vocab], d loss / d logits x `*scale`. labels: [rows], kIgnoredLabel gives
/// loss and gradient 0, any other outside the vocabulary a loss of NaN; losses: [rows]. F16 too.
struct CrossEntropy {
  Numbers logits;
  const std::int32_t* labels{};
  float* losses{};
  std::int64_t rows{}, vocab{};
  const float* scale{};
};

/// Takes the largest of each row of logits [rows, vocab].
struct LargestLogit {
  float* largest{};  // [rows]
  ConstNumbers logits;
  std::int64_t rows{}, vocab{};
};

/// Takes the logit of each row's label where that is among [first, first + vocab) of the whole vocabulary, else 0.
struct LabelLogit {
  float* right{};  // [rows]
  ConstNumbers logits;
  const std::int32_t* labels{};
  std::int64_t rows{}, vocab{}, first{};
};

/// Sums exp(logit - largest) along each row.
struct SumOfExponentials {
  float* sum{};  // [rows]
  ConstNumbers logits;
  const float* largest{};
  std::int64_t rows{}, vocab{};
};

/// CrossEntropy of ranks that each have the part [first, first + vocab) of a vocabulary of `whole`, from what these
/// three made and the ranks took the largest, or the sum, of. Every rank gets the losses of all rows.
struct SharedCrossEntropy {
  Numbers logits;
  const float *largest{}, *right{}, *sum{};
  const std::int32_t* labels{};
  float* losses{};
  std::int64_t rows{}, vocab{}, first{}, whole{};
  const float* scale{};
};

/// Multiplies each row of x [rows, width] by its factor: a gradient of the sum of the rows' losses becomes that of a
/// weighted sum. A factor of 0 gives zeros, whatever the row holds.
struct ScaleRows {
  Numbers x;
  const float* factors{};  // [rows]
  std::int64_t rows{}, width{};
};

/// Adds the sum of squares of x to *sum, a double in device memory.
struct AddSquares {
  double* sum{};
  ConstNumbers x;
  std::int64_t count{};
};

/// Adds the sum of x to *sum.
struct AddSum {
  double* sum{};
  const float* x{};
  std::int64_t count{};
};

/// One AdamW step on `count` parameters, with the gradient times gradient_scale. m and v are F32, or of the weight's
/// dtype. A gradient of an F32 weight with F32 states may be F16.
struct AdamWUpdate {
  Numbers weight;
  ConstNumbers gradient;
  Numbers m, v;
  std::int64_t count{};
  AdamWStep step;
  float gradient_scale = 1;
};

/// The same with states of 8 bits: per 256 parameters one absmax. Codes index the maps of bitsandbytes' dynamic
/// quantisation. Source: Dettmers et al. 2022 (arXiv 2110.02861), bitsandbytes functional.py create_dynamic_map.
struct AdamW8Update {
  Numbers weight;
  ConstNumbers gradient;
  std::uint8_t *m{}, *v{};         // signed and unsigned map
  float *m_absmax{}, *v_absmax{};  // [ceil(count / 256)]
  std::int64_t count{};
  AdamWStep step;
  float gradient_scale = 1;
};

/// NF4 weights to numbers: two codes per byte (the first in the high half), 64 weights share an absmax. The absmax of
/// block b is offset + level(absmax_codes[b]) x absmax_scales[b / 256], where level is the signed dynamic map; without
/// double quantisation (absmax_codes null) it is absmax_scales[b]. F16 too.
struct Nf4Dequantise {
  Numbers out;
  const std::uint8_t* codes{};
  const std::uint8_t* absmax_codes{};
  const float* absmax_scales{};
  float absmax_offset{};
  std::int64_t count{};
};

}  // namespace kernels

/// Calls `X(Name)` for every kernel of namespace kernels.
#define GPUPLAN_KERNELS(X) \
  X(Empty)                 \
  X(FillUniform)           \
  X(Cast)                  \
  X(Zero)                  \
  X(Add)                   \
  X(AddScaled)             \
  X(Embed)                 \
  X(EmbedBackward)         \
  X(AddBias)               \
  X(BiasBackward)          \
  X(RmsNorm)               \
  X(RmsNormBackward)       \
  X(Rotate)                \
  X(Attention)             \
  X(AttentionBackward)     \
  X(Softmax)               \
  X(SwiGlu)                \
  X(SwiGluBackward)        \
  X(CrossEntropy)          \
  X(LargestLogit)          \
  X(LabelLogit)            \
  X(SumOfExponentials)     \
  X(SharedCrossEntropy)    \
  X(ScaleRows)             \
  X(AddSquares)            \
  X(AddSum)                \
  X(AdamWUpdate)           \
  X(AdamW8Update)          \
  X(Nf4Dequantise)

}  // namespace gpuplan
