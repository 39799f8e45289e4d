#include <array>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "run/data/examples.h"

using namespace gpuplan;

namespace {

std::vector<std::int64_t> epoch_of(const SampleOrder& order, std::int64_t epoch) {
  std::vector<std::int64_t> examples;
  for (std::int64_t i = 0; i < order.num_examples; ++i)
    examples.push_back(order.example_at(epoch * order.num_examples + i));
  return examples;
}

}  // namespace

TEST_CASE("sample order: every epoch has each example once, for every number of examples up to 1000") {
  for (std::int64_t n = 1; n <= 1000; ++n)
    for (const std::int64_t epoch : {0, 1, 7}) {
      const auto order = epoch_of({.num_examples = n, .seed = std::uint64_t(n)}, epoch);
      const std::set<std::int64_t> distinct(order.begin(), order.end());
      CAPTURE(n);
      CHECK(std::int64_t(distinct.size()) == n);
      CHECK(*distinct.begin() == 0);
      CHECK(*distinct.rbegin() == n - 1);
    }
}

TEST_CASE(
    "sample order: seeds and epochs differ, the same seed does not, and without shuffling examples follow each other") {
  const SampleOrder order{.num_examples = 1000, .seed = 1};
  CHECK(epoch_of(order, 0) == epoch_of({.num_examples = 1000, .seed = 1}, 0));
  CHECK(epoch_of(order, 0) != epoch_of({.num_examples = 1000, .seed = 2}, 0));
  CHECK(epoch_of(order, 0) != epoch_of(order, 1));
  CHECK(epoch_of({.num_examples = 3, .shuffles = false}, 5) == std::vector<std::int64_t>{0, 1, 2});
}

TEST_CASE("sample order: every example is as likely at every place") {
  // 5 examples, 10,000 seeds: 2,000 expected in each of 25 cells, standard deviation sqrt(10^4 x 0.2 x 0.8) = 40; six
  // of them.
  std::array<std::array<int, 5>, 5> counts{};
  for (std::uint64_t seed = 0; seed < 10'000; ++seed)
    for (std::int64_t i = 0; i < 5; ++i)
      ++counts[std::size_t(i)][std::size_t(SampleOrder{.num_examples = 5, .seed = seed}.example_at(i))];
  for (const auto& row : counts)
    for (const int count : row) CHECK(std::abs(count - 2000) < 240);
}

TEST_CASE("sample order: neighbours do not stay neighbours") {
  const auto order = epoch_of({.num_examples = 100'000, .seed = 3}, 0);
  int num_adjacent = 0;
  for (std::size_t i = 1; i < order.size(); ++i) num_adjacent += std::abs(order[i] - order[i - 1]) == 1;
  CHECK(num_adjacent < 20);  // 2 expected
}
