// Written down as simply as can be, in double: what the device's products are tested against.
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.h"

namespace gpuplan::test {

using Doubles = std::vector<double>;

/// Row-major, as GemmLayout defines the layouts; without what was in C.
inline Doubles naive_product(const GemmProblem& p, const Doubles& a, const Doubles& b) {
  Doubles c(std::size_t(p.m * p.n * p.batch));
  const auto at = [](const Doubles& matrix, std::int64_t index) { return matrix[std::size_t(index)]; };
  for (std::int64_t problem = 0; problem < p.batch; ++problem) {
    const auto a0 = problem * p.m * p.k, b0 = problem * p.n * p.k, c0 = problem * p.m * p.n;
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < p.k; ++l)
          sum += at(a, a0 + (p.layout == GemmLayout::WeightGradient ? l * p.m + i : i * p.k + l)) *
                 at(b, b0 + (p.layout == GemmLayout::Forward ? j * p.k + l : l * p.n + j));
        c[std::size_t(c0 + i * p.n + j)] = double(p.alpha) * sum;
      }
  }
  return c;
}

}  // namespace gpuplan::test
