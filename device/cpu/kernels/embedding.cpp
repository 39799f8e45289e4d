// Rows of a table by their number, and the gradient of the table.
#include "device/cpu/kernels/columns.h"
#include "device/cpu/kernels/list.h"
#include "device/cpu/kernels/typed.h"

namespace gpuplan::GPUPLAN_CPU_VARIANT {

void embed(Numbers y, ConstNumbers table, const std::int32_t* ids, std::int64_t rows, std::int64_t hidden) {
  typed(
      [=](auto* to, auto* from) {
#pragma omp parallel for schedule(static) if (rows * hidden > kAlone)
        for (std::int64_t r = 0; r < rows; ++r)
#pragma omp simd
          for (std::int64_t i = 0; i < hidden; ++i) store(to[r * hidden + i], load(from[ids[r] * hidden + i]));
      },
      y, table);
}

void embed_backward(Numbers gradient, ConstNumbers dy, const std::int32_t* ids, std::int64_t rows,
                    std::int64_t hidden) {
  typed(
      [=](auto* to, auto* from) {
        by_columns(hidden, rows * hidden, [=](std::int64_t begin, std::int64_t count) GPUPLAN_INLINE_LAMBDA {
          for (std::int64_t r = 0; r < rows; ++r) {
            auto* const row = to + ids[r] * hidden + begin;
#pragma omp simd
            for (std::int64_t i = 0; i < count; ++i) store(row[i], load(row[i]) + load(from[r * hidden + begin + i]));
          }
        });
      },
      gradient, dy);
}

}  // namespace gpuplan::GPUPLAN_CPU_VARIANT
