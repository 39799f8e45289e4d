// Token files for tests.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "run/data/examples.h"

namespace gpuplan::test {

/// The values as they lie in a file.
template <class T>
std::string packed_bytes(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

/// The first `count` natural numbers from `first` on.
template <class T>
std::vector<T> counting(std::size_t count, T first = 0) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = T(first + T(i));
  return values;
}

struct Example {
  std::vector<std::int32_t> ids, labels;
  bool operator==(const Example&) const = default;
};

inline Example example(const Examples& examples, std::int64_t index, std::int64_t seq_len) {
  Example result{std::vector<std::int32_t>(std::size_t(seq_len), -1),
                 std::vector<std::int32_t>(std::size_t(seq_len), -1)};
  examples.read(index, result.ids, result.labels);
  return result;
}

}  // namespace gpuplan::test
