// Kernels that reduce along rows.
#include <cmath>
#include <limits>

#include "device/cpu/kernels/numbers.h"

namespace gpuplan::GPUPLAN_CPU_VARIANT {
namespace {

template <class T>
GPUPLAN_INLINE float max_of(const T* x, std::int64_t count) {
  float largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = load(x[i]);
    largest = value > largest ? value : largest;
  }
  return largest;
}

template <class T>
GPUPLAN_INLINE float sum_of_exp(const T* x, std::int64_t count, float largest) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += fast_exp(load(x[i]) - largest);
  return sum;
}

/// x = exp(x - largest) * factor.
template <class T>
GPUPLAN_INLINE void scaled_exp(T* x, std::int64_t count, float largest, float factor) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) store(x[i], fast_exp(load(x[i]) - largest) * factor);
}

template <class T>
GPUPLAN_INLINE void zero(T* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) store(x[i], 0.0F);
}

/// The gradient is softmax - one-hot; the label's own logit is read before it is overwritten. NaN for a label that does
/// not exist.
template <class T>
GPUPLAN_INLINE float entropy_row(T* logits, std::int64_t vocab, std::int32_t label, float scale) {
  if (label == kIgnoredLabel) {
    zero(logits, vocab);
    return 0;
  }
  const float largest = max_of(logits, vocab);
  const float sum = sum_of_exp(logits, vocab, largest);
  const bool is_known = label >= 0 && label < vocab;
  const float right = is_known ? load(logits[label]) : std::numeric_limits<float>::quiet_NaN();
  scaled_exp(logits, vocab, largest, scale / sum);
  if (is_known) store(logits[label], (fast_exp(right - largest) / sum - 1.0F) * scale);
  return logf(sum) + largest - right;
}

}  // namespace

void run(const kernels::CrossEntropy& k) {
  const std::int32_t* const labels = k.labels;
  float* const losses = k.losses;
  const std::int64_t rows = k.rows, vocab = k.vocab;
  const float scale = *k.scale;
  with_type(k.logits.dtype, [=, logits = k.logits.data](auto type) {
    auto* const values = static_cast<decltype(type)*>(logits);
#pragma omp parallel for schedule(static) if (rows * vocab > kAlone)
    for (std::int64_t r = 0; r < rows; ++r) losses[r] = entropy_row(values + r * vocab, vocab, labels[r], scale);
  });
}

void run(const kernels::Softmax& k) {
  const std::int64_t queries = k.queries, keys = k.keys, rows = k.blocks * queries;
  const bool is_causal = k.is_causal;
  with_type(k.scores.dtype, [=, scores = k.scores.data](auto type) {
    auto* const values = static_cast<decltype(type)*>(scores);
#pragma omp parallel for schedule(static) if (rows * keys > kAlone)
    for (std::int64_t r = 0; r < rows; ++r) {
      auto* const row = values + r * keys;
      const std::int64_t seen = is_causal ? r % queries + keys - queries + 1 : keys;
      const std::int64_t visible = seen < 0 ? 0 : seen;
      const float largest = max_of(row, visible);
      const float sum = sum_of_exp(row, visible, largest);
      scaled_exp(row, visible, largest, 1.0F / sum);
      zero(row + visible, keys - visible);
    }
  });
}

}  // namespace gpuplan::GPUPLAN_CPU_VARIANT
