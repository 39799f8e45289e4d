// What cublasLtMatmul does with column-major operands, written down as simply as can be.
#pragma once

#include "cuda_device/naive.h"
#include "device/cuda/gemm_operands.h"

namespace gpuplan::test {

/// Adds alpha op(first) op(second) to `result`, or replaces it.
inline void lt_product(const GemmProblem& p, const Doubles& a, const Doubles& b, Doubles& c) {
  const cuda::GemmOperands operands = cuda::column_major_operands(p);
  const auto element = [](const Doubles& data, const cuda::ColumnMajor& m, bool is_transposed, std::int64_t problem,
                          std::int64_t row, std::int64_t column) {
    if (is_transposed) std::swap(row, column);
    return data.at(std::size_t(problem * m.stride + column * m.leading + row));
  };
  const auto& [first, second, result, is_first_transposed, is_second_transposed] = operands;
  const auto inner = is_first_transposed ? first.rows : first.columns;
  for (std::int64_t problem = 0; problem < p.batch; ++problem)
    for (std::int64_t row = 0; row < result.rows; ++row)
      for (std::int64_t column = 0; column < result.columns; ++column) {
        double sum = 0;
        for (std::int64_t l = 0; l < inner; ++l)
          sum += element(b, first, is_first_transposed, problem, row, l) *
                 element(a, second, is_second_transposed, problem, l, column);
        double& to = c.at(std::size_t(problem * result.stride + column * result.leading + row));
        to = double(p.alpha) * sum + (p.accumulates ? to : 0.0);
      }
}

}  // namespace gpuplan::test
