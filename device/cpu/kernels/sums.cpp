// Rows of a table by their number, rows with a bias, sums down columns, and sums over everything.
#include "device/cpu/kernels/numbers.h"

namespace gpuplan::GPUPLAN_CPU_VARIANT {
namespace {

/// Sum of f(x[i]) over the whole array, in doubles: squares of bf16 end in few digits, whose ties an fp32 sum rounds
/// with a bias (1e-5 of 1000 numbers). Parts are as many as threads may want and depend on the count alone.
template <class T, class F>
GPUPLAN_INLINE double total(const T* x, std::int64_t count, F f) {
  constexpr std::int64_t kParts = 64;
  double sums[kParts];
#pragma omp parallel for schedule(static) if (count > kAlone)
  for (std::int64_t p = 0; p < kParts; ++p) {
    const std::int64_t end = count * (p + 1) / kParts;
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = count * p / kParts; i < end; ++i) sum += double(f(load(x[i])));
    sums[p] = sum;
  }
  double all = 0;
  for (const double sum : sums) all += sum;
  return all;
}

/// The sum down `count` columns, in pieces of rows: long fp32 sums lose digits.
template <class T>
GPUPLAN_INLINE void sum_columns(float* sums, const T* x, std::int64_t rows, std::int64_t width, std::int64_t count) {
  constexpr std::int64_t kPiece = 128;
  for (std::int64_t i = 0; i < count; ++i) sums[i] = 0;
  for (std::int64_t begin = 0; begin < rows; begin += kPiece) {
    float piece[kColumns] = {};
    for (std::int64_t r = begin; r < rows && r < begin + kPiece; ++r)
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) piece[i] += load(x[r * width + i]);
    for (std::int64_t i = 0; i < count; ++i) sums[i] += piece[i];
  }
}

}  // namespace

void run(const kernels::Embed& k) {
  const std::int32_t* const ids = k.ids;
  const std::int64_t rows = k.rows, hidden = k.hidden, first = k.first, held = k.held;
  typed(
      [=](auto* to, auto* from) {
#pragma omp parallel for schedule(static) if (rows * hidden > kAlone)
        for (std::int64_t r = 0; r < rows; ++r) {
          const std::int64_t at = ids[r] - first;
          const bool is_held = at >= 0 && at < held;
          const auto* const row = from + (is_held ? at : 0) * hidden;
#pragma omp simd
          for (std::int64_t i = 0; i < hidden; ++i) store(to[r * hidden + i], is_held ? load(row[i]) : 0.0F);
        }
      },
      k.y, k.table);
}

void run(const kernels::EmbedBackward& k) {
  const std::int32_t* const ids = k.ids;
  const std::int64_t rows = k.rows, hidden = k.hidden, first = k.first, held = k.held;
  typed(
      [=](auto* to, auto* from) {
        by_columns(hidden, rows * hidden, [=](std::int64_t begin, std::int64_t count) GPUPLAN_INLINE_LAMBDA {
          for (std::int64_t r = 0; r < rows; ++r) {
            const std::int64_t at = ids[r] - first;
            if (at < 0 || at >= held) continue;
            auto* const row = to + at * hidden + begin;
#pragma omp simd
            for (std::int64_t i = 0; i < count; ++i) store(row[i], load(row[i]) + load(from[r * hidden + begin + i]));
          }
        });
      },
      k.gradient, k.dy);
}

void run(const kernels::AddBias& k) {
  const std::int64_t rows = k.rows, width = k.width;
  typed(
      [=](auto* to, auto* shift) {
#pragma omp parallel for schedule(static) if (rows * width > kAlone)
        for (std::int64_t r = 0; r < rows; ++r)
#pragma omp simd
          for (std::int64_t i = 0; i < width; ++i) store(to[r * width + i], load(to[r * width + i]) + load(shift[i]));
      },
      k.y, k.bias);
}

void run(const kernels::BiasBackward& k) {
  const std::int64_t rows = k.rows, width = k.width;
  typed(
      [=](auto* to, auto* from) {
        by_columns(width, rows * width, [=](std::int64_t begin, std::int64_t count) GPUPLAN_INLINE_LAMBDA {
          float sums[kColumns];
          sum_columns(sums, from + begin, rows, width, count);
          for (std::int64_t i = 0; i < count; ++i) store(to[begin + i], load(to[begin + i]) + sums[i]);
        });
      },
      k.gradient, k.dy);
}

void run(const kernels::AddSquares& k) {
  typed([&](auto* values) { *k.sum += total(values, k.count, [](float value) { return value * value; }); }, k.x);
}

void run(const kernels::AddSum& k) {
  *k.sum += total(k.x, k.count, [](float value) { return value; });
}

}  // namespace gpuplan::GPUPLAN_CPU_VARIANT
