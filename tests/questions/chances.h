// The chances of a random question, the same on every machine: standard distributions differ between libraries, so none
// is used.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>

namespace gpuplan::test {

class Chances {
 public:
  explicit Chances(std::uint64_t seed) : random_(seed) {}
  std::size_t below(std::size_t n) { return std::size_t(random_() % n); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <class List>
  const auto& pick(const List& list) {
    return list[below(list.size())];
  }
  /// Between `least` and `most`, all magnitudes alike.
  double spread(double least, double most) {
    const double share = double(below(1'000'000)) / 1e6;
    return std::exp(std::log(least) + share * (std::log(most) - std::log(least)));
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace gpuplan::test
