// What tests of the training kernels share: arrays with their dtype, and gradients by finite differences of a naive
// definition.
#pragma once

#include <algorithm>

#include "cpu_fixture.h"

namespace gpuplan::test {

using Doubles = std::vector<double>;
inline constexpr Dtype kTrained[] = {Dtype::F32, Dtype::BF16};

struct Array {
  Buffer buffer;
  Dtype dtype = Dtype::F32;

  operator Numbers() const { return {buffer.data(), dtype}; }       // NOLINT: so that calls read as they are written
  operator ConstNumbers() const { return {buffer.data(), dtype}; }  // NOLINT
  Doubles values() const { return doubles(buffer, dtype); }
  bool has_bits_of(const Array& other) const {
    return buffer.size() == other.buffer.size() &&
           (buffer.size().count == 0 ||
            std::memcmp(buffer.data(), other.buffer.data(), std::size_t(buffer.size().count)) == 0);
  }
};

class Trainer : public Cpu {
 public:
  using Cpu::Cpu;
  Array array(std::int64_t count, Dtype dtype, std::uint64_t seed, float low = -1, float high = 1) {
    return {random(count, dtype, seed, low, high), dtype};
  }
  Array copy_of(const Array& from) const {
    Array to{zeros(from.buffer.size().count / size_of(from.dtype), from.dtype), from.dtype};
    if (from.buffer.size().count)
      std::memcpy(to.buffer.data(), from.buffer.data(), std::size_t(from.buffer.size().count));
    return to;
  }
};

/// d (sum of weights x f(x)) / dx by central differences; the step costs 1e-10 by f's third derivative and 1e-11 by
/// rounding.
template <class F>
Doubles differences(F f, Doubles x, const Doubles& weights) {
  constexpr double kStep = 1e-5;
  const auto weighted = [&] {
    const Doubles y = f(x);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * weights[i];
    return sum;
  };
  Doubles gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double there = x[i];
    x[i] = there + kStep;
    const double above = weighted();
    x[i] = there - kStep;
    gradient[i] = (above - weighted()) / (2 * kStep);
    x[i] = there;
  }
  return gradient;
}

inline Doubles sum_of(const Doubles& a, const Doubles& b, double factor = 1) {
  Doubles sum = a;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += factor * b[i];
  return sum;
}

}  // namespace gpuplan::test
