#include "cuda_device/kernels/training_bench.h"

namespace gpuplan::test {

TEST_CASE("training: sums and sums of squares are added to a double, exact to fp32's last place") {
  TrainingBench bench;
  for (const Dtype dtype : kTrained)
    for (const std::int64_t count : {0, 1, 1000, 40'001}) {
      CAPTURE(to_string(dtype));
      CAPTURE(count);
      const Tensor x = bench.random(count, dtype, 0.5, 1, 1, count % 2),
                   y = bench.random(count, Dtype::F32, 0.5, 1, 2, count % 2);
      const Tensor squares = bench.upload_double(3), sum = bench.upload_double(4);
      double expected_squares = 3, expected_sum = 4;
      for (const double value : bench.download(x)) expected_squares += value * value;
      for (const double value : bench.download(y)) expected_sum += value;
      bench.run(kernels::AddSquares{static_cast<double*>(squares.data()), all_of(x), count});
      bench.run(kernels::AddSum{static_cast<double*>(sum.data()), floats_in(y), count});
      CHECK(bench.download_double(squares) == doctest::Approx(expected_squares).epsilon(2e-7));
      CHECK(bench.download_double(sum) == doctest::Approx(expected_sum).epsilon(2e-7));
    }
}

TEST_CASE("training: a sum over more than all blocks take at once misses nothing") {
  TrainingBench bench;
  constexpr std::int64_t kCount = 1024 * 2048 + 2050;
  std::vector<float> numbers(kCount);
  double expected = 0;
  for (std::int64_t i = 0; i < kCount; ++i) expected += double(numbers[std::size_t(i)] = float(i % 4093) / 64);
  const Tensor x = bench.upload_floats(numbers), sum = bench.upload_double(0);
  bench.run(kernels::AddSum{static_cast<double*>(sum.data()), floats_in(x), kCount});
  CHECK(bench.download_double(sum) == doctest::Approx(expected).epsilon(1e-9));  // eight of these are exact in fp32
}

TEST_CASE("training: sums have the same bits each time") {
  TrainingBench bench;
  constexpr std::int64_t kRows = 150, kHidden = 72, kVocab = 7;
  std::vector<std::int32_t> ids;
  for (std::int32_t r = 0; r < kRows; ++r) ids.push_back(r % kVocab);
  const Tensor id = bench.upload_ids(ids), x = bench.random(kRows * kHidden, Dtype::F32, -1, 1, 1),
               dy = bench.random(kRows * kHidden, Dtype::F32, -1, 1, 2),
               weight = bench.random(kHidden, Dtype::F32, -1, 1, 3);
  const auto run = [&] {
    const Tensor table = bench.random(kVocab * kHidden, Dtype::F32, -1, 1, 4),
                 bias = bench.random(kHidden, Dtype::F32, -1, 1, 5), norm = bench.random(kHidden, Dtype::F32, -1, 1, 6),
                 dx = bench.empty(kRows * kHidden, Dtype::F32), squares = bench.upload_double(0);
    bench.run(kernels::EmbedBackward{all_of(table), all_of(dy), ids_in(id), kRows, kHidden});
    bench.run(kernels::BiasBackward{all_of(bias), all_of(dy), kRows, kHidden});
    bench.run(kernels::RmsNormBackward{all_of(dx), nullptr, all_of(norm), all_of(dy), all_of(x), all_of(weight), kRows,
                                       kHidden, 1e-5F});
    bench.run(kernels::AddSquares{static_cast<double*>(squares.data()), all_of(x), kRows * kHidden});
    std::vector<std::vector<std::uint8_t>> all;
    for (const Tensor* const tensor : {&table, &bias, &norm, &dx, &squares}) all.push_back(bench.bits(*tensor));
    return all;
  };
  CHECK(run() == run());
}

}  // namespace gpuplan::test
