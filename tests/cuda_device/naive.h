// Written down as simply as can be, in double: what the device's products and attention are tested against.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "device/device.h"

namespace gpuplan::test {

using Numbers = std::vector<double>;

/// Row-major, as GemmLayout defines the layouts; without what was in C.
inline Numbers naive_product(const GemmProblem& p, const Numbers& a, const Numbers& b) {
  Numbers c(std::size_t(p.m * p.n * p.batch));
  const auto at = [](const Numbers& matrix, std::int64_t index) { return matrix[std::size_t(index)]; };
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

/// As AttentionProblem defines it. A query that sees no key gives zeros.
inline Numbers naive_attention(const AttentionProblem& p, const Numbers& q, const Numbers& k, const Numbers& v) {
  Numbers out(q.size());
  const auto group = p.heads / p.kv_heads;
  for (std::int64_t row = 0; row < p.batch * p.heads * p.queries; ++row) {
    const auto query = row % p.queries, head = row / p.queries;
    const auto first_key = (head / p.heads * p.kv_heads + head % p.heads / group) * p.keys;
    const auto visible = p.is_causal ? std::min(p.keys, query + p.keys - p.queries + 1) : p.keys;
    Numbers weights;
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::int64_t key = 0; key < visible; ++key) {
      double score = 0;
      for (std::int64_t d = 0; d < p.head_size; ++d)
        score += q[std::size_t(row * p.head_size + d)] * k[std::size_t((first_key + key) * p.head_size + d)];
      weights.push_back(score / std::sqrt(double(p.head_size)));
      largest = std::max(largest, weights.back());
    }
    for (double& weight : weights) sum += weight = std::exp(weight - largest);
    for (std::int64_t key = 0; key < visible; ++key)
      for (std::int64_t d = 0; d < p.head_size; ++d)
        out[std::size_t(row * p.head_size + d)] +=
            weights[std::size_t(key)] / sum * v[std::size_t((first_key + key) * p.head_size + d)];
  }
  return out;
}

}  // namespace gpuplan::test
