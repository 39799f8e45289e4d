#include "cuda_device/kernels/training_bench.h"

namespace gpuplan::test {
namespace {

/// y = x weight / sqrt(mean(x^2) + 1e-5), of one row.
Doubles naive_norm(const Doubles& x, const Doubles& weight) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  Doubles y;
  for (std::size_t i = 0; i < x.size(); ++i)
    y.push_back(x[i] * weight[i] / std::sqrt(squares / double(x.size()) + 1e-5));
  return y;
}

double dot(const Doubles& a, const Doubles& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

struct Gradients {
  Doubles x, weight;
};

/// Of the sum of dy x norm(x), by differences of the definition; the weight, which it is linear in, by its definition.
Gradients naive_norm_gradients(const Doubles& dy, const Doubles& x, const Doubles& weight) {
  const std::size_t hidden = weight.size();
  Gradients gradients{.x = {}, .weight = Doubles(hidden)};
  for (std::size_t begin = 0; begin < x.size(); begin += hidden) {
    const auto row_of = [&](const Doubles& all) {
      return Doubles(all.begin() + std::ptrdiff_t(begin), all.begin() + std::ptrdiff_t(begin + hidden));
    };
    const Doubles down = row_of(dy), plain = naive_norm(row_of(x), Doubles(hidden, 1.0));
    Doubles row = row_of(x);
    for (std::size_t i = 0; i < hidden; ++i) {
      const double there = row[i];
      gradients.x.push_back(derivative(
          [&](double value) {
            row[i] = value;
            return dot(down, naive_norm(row, weight));
          },
          there));
      row[i] = there;
      gradients.weight[i] += down[i] * plain[i];
    }
  }
  return gradients;
}

Doubles naive_embedding_gradient(Doubles gradient, const Doubles& dy, const std::vector<std::int32_t>& ids) {
  const std::size_t hidden = dy.size() / ids.size();
  for (std::size_t i = 0; i < dy.size(); ++i) gradient[std::size_t(ids[i / hidden]) * hidden + i % hidden] += dy[i];
  return gradient;
}

}  // namespace

TEST_CASE("training: an embedding copies rows, and its backward adds up those of the same id") {
  TrainingBench bench;
  constexpr std::int64_t kVocab = 11, kRows = 40;
  std::vector<std::int32_t> ids;
  for (std::int32_t r = 0; r < kRows; ++r)
    ids.push_back(r * r % kVocab);  // squares mod 11: 1, 3, 4, 5, 9 and 0, others never
  const Tensor id = bench.upload_ids(ids);
  for (const Dtype dtype : kTrained)
    for (const Dtype other : kTrained)
      for (const std::int64_t hidden : {1, 33, 64, 2100}) {
        CAPTURE(to_string(dtype));
        CAPTURE(to_string(other));
        CAPTURE(hidden);
        const std::int64_t shift = hidden == 64 ? 0 : 1;
        const Tensor table = bench.random(kVocab * hidden, other, -1, 1, 1, shift),
                     y = bench.empty(kRows * hidden, dtype, shift);
        const Tensor dy = bench.random(kRows * hidden, dtype, -1, 1, 2, shift),
                     gradient = bench.random(kVocab * hidden, other, -1, 1, 3, shift);
        const Doubles from = bench.download(table), before = bench.download(gradient);
        const Doubles expected = naive_embedding_gradient(before, bench.download(dy), ids);
        Doubles copied;
        for (std::int64_t i = 0; i < kRows * hidden; ++i)
          copied.push_back(from[std::size_t(ids[std::size_t(i / hidden)] * hidden + i % hidden)]);
        bench.run(kernels::Embed{all_of(y), all_of(table), ids_in(id), kRows, hidden});
        bench.run(kernels::EmbedBackward{all_of(gradient), all_of(dy), ids_in(id), kRows, hidden});
        check_close(bench.download(y), copied, dtype == other || dtype == Dtype::F32 ? 0 : one_rounding(dtype), 0);
        const Doubles after = bench.download(gradient);
        check_close(after, expected, one_rounding(other) + 1e-6,
                    0.1);  // rounded once, although an id comes up to 8 times
        for (std::int64_t i = 2 * hidden; i < 3 * hidden; ++i) REQUIRE(after[std::size_t(i)] == before[std::size_t(i)]);

        // a table of the ids 4 to 14
        bench.run(kernels::Embed{all_of(y), all_of(table), ids_in(id), kRows, hidden, 4, kVocab});
        for (std::int64_t i = 0; i < kRows * hidden; ++i) {
          const std::int64_t row = ids[std::size_t(i / hidden)] - 4;
          copied[std::size_t(i)] = row < 0 ? 0 : from[std::size_t(row * hidden + i % hidden)];
        }
        check_close(bench.download(y), copied, dtype == other || dtype == Dtype::F32 ? 0 : one_rounding(dtype), 0);
        bench.run(kernels::EmbedBackward{all_of(gradient), all_of(dy), ids_in(id), kRows, hidden, 4, kVocab});
        std::vector<std::int32_t> held;
        Doubles added;
        const Doubles all = bench.download(dy);
        for (std::int64_t r = 0; r < kRows; ++r) {
          if (ids[std::size_t(r)] < 4) continue;
          held.push_back(ids[std::size_t(r)] - 4);
          added.insert(added.end(), all.begin() + r * hidden, all.begin() + (r + 1) * hidden);
        }
        check_close(bench.download(gradient), naive_embedding_gradient(after, added, held), one_rounding(other) + 1e-6,
                    1);  // sums of up to eight that may nearly cancel
      }
}

TEST_CASE("training: the gradient of an embedding adds rows of an id from far apart, always in the same order") {
  TrainingBench bench;
  constexpr std::int64_t kVocab = 50'000, kRows = 2200, kHidden = 3;  // more rows than one launch takes (2048)
  std::vector<std::int32_t> ids;
  for (std::int32_t r = 0; r < kRows; ++r)
    ids.push_back(r < 1000 ? 7 : r >= 2048 && r < 2060 ? 49'999 : r % 5 == 0 ? 7 : 20'000 + r * 7 % 300);
  const Tensor id = bench.upload_ids(ids), dy = bench.random(kRows * kHidden, Dtype::F32, -1, 1, 1);
  const Tensor gradient = bench.upload_floats(std::vector<float>(kVocab * kHidden, 0.5F)),
               again = bench.copy_of(gradient);
  bench.run(kernels::EmbedBackward{all_of(gradient), all_of(dy), ids_in(id), kRows, kHidden});
  bench.run(kernels::EmbedBackward{all_of(again), all_of(dy), ids_in(id), kRows, kHidden});
  const Doubles before(kVocab * kHidden, 0.5);
  check_close(bench.download(gradient), naive_embedding_gradient(before, bench.download(dy), ids), 1e-5, 1);
  CHECK(bench.bits(gradient) == bench.bits(again));
}

TEST_CASE("training: RMS norm with a weight of either dtype is its definition") {
  TrainingBench bench;
  constexpr std::int64_t kRows = 3;
  for (const Dtype dtype : kTrained)
    for (const Dtype other : kTrained)
      for (const std::int64_t hidden : {1, 7, 256, 4104}) {
        CAPTURE(to_string(dtype));
        CAPTURE(to_string(other));
        CAPTURE(hidden);
        const Tensor x = bench.random(kRows * hidden, dtype, -2, 2, 1), weight = bench.random(hidden, other, -1, 1, 2);
        const Tensor y = bench.empty(kRows * hidden, dtype);
        bench.run(kernels::RmsNorm{all_of(y), all_of(x), all_of(weight), kRows, hidden, 1e-5F});
        const Doubles from = bench.download(x), w = bench.download(weight);
        Doubles expected;
        for (auto row = from.begin(); row != from.end(); row += hidden)
          for (const double value : naive_norm(Doubles(row, row + hidden), w)) expected.push_back(value);
        check_close(bench.download(y), expected, one_rounding(dtype) + 2e-6, 0.01);
      }
}

TEST_CASE("training: gradients of RMS norm are those of its definition; a residual gradient passes, in place or not") {
  TrainingBench bench;
  for (const Dtype dtype : kTrained)
    for (const Dtype other : kTrained)
      for (const Dtype third : kTrained)
        for (const auto& [rows, hidden] : {std::pair<std::int64_t, std::int64_t>{5, 1}, {40, 7}, {2, 264}, {1, 2051}}) {
          if (hidden > 2000 && (other == dtype || third == dtype)) continue;  // the naive way takes its square
          CAPTURE(to_string(dtype));
          CAPTURE(to_string(other));
          CAPTURE(to_string(third));
          CAPTURE(hidden);
          const std::int64_t count = rows * hidden;
          const Tensor x = bench.random(count, dtype, -1, 1, 1), weight = bench.random(hidden, other, -1, 1, 2),
                       dy = bench.random(count, dtype, -1, 1, 3), residual = bench.random(count, dtype, -1, 1, 4),
                       gradient = bench.random(hidden, third, -1, 1, 5), alone = bench.empty(count, dtype),
                       with = bench.empty(count, dtype), in_place = bench.copy_of(residual);
          const Gradients expected =
              naive_norm_gradients(bench.download(dy), bench.download(x), bench.download(weight));
          const Doubles sums = sum_of(bench.download(gradient), expected.weight),
                        passed = sum_of(expected.x, bench.download(residual));
          const auto run = [&](const Tensor& dx, const void* from, Numbers to) {
            bench.run(kernels::RmsNormBackward{all_of(dx), from, to, all_of(dy), all_of(x), all_of(weight), rows,
                                               hidden, 1e-5F});
          };
          run(alone, nullptr, all_of(gradient));
          run(with, residual.data(), {});
          run(in_place, in_place.data(), {});
          check_close(bench.download(alone), expected.x, one_rounding(dtype) + 1e-5, 0.1);
          check_close(bench.download(with), passed, one_rounding(dtype) + 1e-5, 0.1);
          CHECK(bench.bits(in_place) == bench.bits(with));
          check_close(bench.download(gradient), sums, one_rounding(third) + 5e-6, 1);
        }
}

TEST_CASE("training: the gradient of a bias is the column sums, of few rows and of many") {
  TrainingBench bench;
  for (const Dtype dtype : kTrained)
    for (const Dtype other : kTrained)
      for (const auto& [rows, width] :
           {std::pair<std::int64_t, std::int64_t>{1, 47}, {300, 1}, {300, 264}, {100, 600}, {3001, 5}}) {
        CAPTURE(to_string(dtype));
        CAPTURE(to_string(other));
        CAPTURE(rows);
        CAPTURE(width);
        const Tensor dy = bench.random(rows * width, dtype, -1, 1, 1), gradient = bench.random(width, other, -1, 1, 2);
        Doubles sums = bench.download(gradient);
        const Doubles added = bench.download(dy);
        for (std::size_t i = 0; i < added.size(); ++i) sums[i % sums.size()] += added[i];
        bench.run(kernels::BiasBackward{all_of(gradient), all_of(dy), rows, width});
        check_close(bench.download(gradient), sums, one_rounding(other) + 5e-6, 1);  // sums reach 50
      }
}

}  // namespace gpuplan::test
