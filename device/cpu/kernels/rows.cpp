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

void run(const kernels::LargestLogit& k) {
  const std::int64_t rows = k.rows, vocab = k.vocab;
  float* const largest = k.largest;
  with_type(k.logits.dtype, [=, logits = k.logits.data](auto type) {
    auto* const values = static_cast<const decltype(type)*>(logits);
#pragma omp parallel for schedule(static) if (rows * vocab > kAlone)
    for (std::int64_t r = 0; r < rows; ++r) largest[r] = max_of(values + r * vocab, vocab);
  });
}

void run(const kernels::LabelLogit& k) {
  const std::int64_t rows = k.rows, vocab = k.vocab, first = k.first;
  const std::int32_t* const labels = k.labels;
  float* const right = k.right;
  with_type(k.logits.dtype, [=, logits = k.logits.data](auto type) {
    auto* const values = static_cast<const decltype(type)*>(logits);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t at = labels[r] - first;
      right[r] = at >= 0 && at < vocab ? load(values[r * vocab + at]) : 0.0F;
    }
  });
}

void run(const kernels::SumOfExponentials& k) {
  const std::int64_t rows = k.rows, vocab = k.vocab;
  const float* const largest = k.largest;
  float* const sum = k.sum;
  with_type(k.logits.dtype, [=, logits = k.logits.data](auto type) {
    auto* const values = static_cast<const decltype(type)*>(logits);
#pragma omp parallel for schedule(static) if (rows * vocab > kAlone)
    for (std::int64_t r = 0; r < rows; ++r) sum[r] = sum_of_exp(values + r * vocab, vocab, largest[r]);
  });
}

void run(const kernels::SharedCrossEntropy& k) {
  const std::int64_t rows = k.rows, vocab = k.vocab, first = k.first, whole = k.whole;
  const std::int32_t* const labels = k.labels;
  const float *const largest = k.largest, *const right = k.right, *const sum = k.sum;
  float* const losses = k.losses;
  const float scale = *k.scale;
  with_type(k.logits.dtype, [=, logits = k.logits.data](auto type) {
    auto* const values = static_cast<decltype(type)*>(logits);
#pragma omp parallel for schedule(static) if (rows * vocab > kAlone)
    for (std::int64_t r = 0; r < rows; ++r) {
      auto* const row = values + r * vocab;
      if (labels[r] == kIgnoredLabel) {
        zero(row, vocab);
        losses[r] = 0;
        continue;
      }
      const std::int64_t at = labels[r] - first;
      scaled_exp(row, vocab, largest[r], scale / sum[r]);
      if (at >= 0 && at < vocab) store(row[at], (fast_exp(right[r] - largest[r]) / sum[r] - 1.0F) * scale);
      const bool is_known = labels[r] >= 0 && labels[r] < whole;
      losses[r] = is_known ? logf(sum[r]) + largest[r] - right[r] : std::numeric_limits<float>::quiet_NaN();
    }
  });
}

void run(const kernels::ScaleRows& k) {
  const float* const factors = k.factors;
  const std::int64_t rows = k.rows, width = k.width;
  with_type(k.x.dtype, [=, x = k.x.data](auto type) {
    auto* const values = static_cast<decltype(type)*>(x);
#pragma omp parallel for schedule(static) if (rows * width > kAlone)
    for (std::int64_t r = 0; r < rows; ++r) {
      auto* const row = values + r * width;
      const float factor = factors[r];
      if (factor == 0)
        zero(row, width);
      else
        for (std::int64_t i = 0; i < width; ++i) store(row[i], load(row[i]) * factor);
    }
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
