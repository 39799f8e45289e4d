// Work that is cut by columns, so that sums down them have one order for any number of threads.
#pragma once

#include "device/cpu/kernels/number.h"

#define GPUPLAN_INLINE_LAMBDA __attribute__((always_inline))

namespace gpuplan {
namespace {

/// Of one piece: two cache lines of fp32.
constexpr std::int64_t kColumns = 32;

/// Calls f(first column, number of columns) for pieces of `width` columns, with a length the compiler knows for all but
/// the last. `work`: elements touched by all of it.
template <class F>
GPUPLAN_INLINE void by_columns(std::int64_t width, std::int64_t work, F f) {
#pragma omp parallel for schedule(static) if (work > kAlone)
  for (std::int64_t begin = 0; begin < width; begin += kColumns) {
    if (width - begin >= kColumns)
      f(begin, kColumns);
    else
      f(begin, width - begin);
  }
}

}  // namespace
}  // namespace gpuplan
