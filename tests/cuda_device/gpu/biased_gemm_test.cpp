// Products of linears with biases: whether the device has them in one pass or not, the result is the same.
#include "cuda_device/kernels/training_bench.h"
#include "device/products.h"

namespace gpuplan::test {
namespace {

/// In two passes the product, which is up to 1 larger than the result x, is rounded and then the result: |x| + 1 + |x|
/// <= 3 max(1, |x|) times one rounding. Sums of fp32 are of k numbers below 1.
void check_rounded(const Doubles& measured, const Doubles& expected, Dtype dtype, std::int64_t k) {
  check_close(measured, expected, 3 * one_rounding(dtype), dtype == Dtype::F32 ? std::sqrt(double(k)) : 1);
}

/// Adds one number per column to rows.
void add_to_rows(Doubles& rows, const Doubles& columns) {
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] += columns[i % columns.size()];
}

/// `shift`: of the vector, so that it is not aligned.
void check_bias(Bench& bench, const GemmProblem& p, Dtype dtype, std::int64_t shift) {
  const Dtype input = operand_dtype(p.type);
  const Tensor a = bench.random(p.m * p.k, input, -1, 1, 1), b = bench.random(p.n * p.k, input, -1, 1, 2),
               c = bench.random(p.m * p.n, p.output, -1, 1, 3), bias = bench.random(p.n, dtype, -1, 1, 4, shift);
  Doubles expected = naive_product(p, bench.download(a), bench.download(b));
  add_to_rows(expected, bench.download(bias));
  if (p.accumulates) expected = sum_of(expected, bench.download(c));
  gemm_and_bias(bench.device, p, a.data(), b.data(), c.data(), all_of(bias), *bench.stream);
  check_rounded(bench.download(c), expected, p.output, p.k);
}

void check_bias_gradient(Bench& bench, const GemmProblem& p, Dtype dtype, std::int64_t shift) {
  const Dtype input = operand_dtype(p.type);
  const Tensor dy = bench.random(p.k * p.m, input, -1, 1, 1), x = bench.random(p.k * p.n, input, -1, 1, 2),
               c = bench.random(p.m * p.n, p.output, -1, 1, 3), gradient = bench.random(p.m, dtype, -1, 1, 4, shift);
  const Doubles terms = bench.download(dy), before = bench.download(gradient);
  Doubles expected = naive_product(p, terms, bench.download(x)), sums(std::size_t(p.m));
  for (std::size_t i = 0; i < terms.size(); ++i) sums[i % sums.size()] += terms[i];
  if (p.accumulates) expected = sum_of(expected, bench.download(c)), sums = sum_of(sums, before);
  gemm_and_bias_gradient(bench.device, p, dy.data(), x.data(), c.data(), all_of(gradient), *bench.stream);
  check_rounded(bench.download(c), expected, p.output, p.k);
  check_rounded(bench.download(gradient), sums, dtype, p.k);
}

struct Size {
  std::int64_t m, n, k;
};

/// `check` with a vector of each dtype, aligned and not, for each problem that training has.
template <class Check>
void check_each(GemmLayout layout, Check check) {
  Bench bench;
  const auto types = bench.device.facts().gemm_types;
  for (const GemmType type : {GemmType::F32, GemmType::BF16}) {
    if (std::find(types.begin(), types.end(), type) == types.end()) continue;
    for (const Dtype output : {Dtype::F32, operand_dtype(type)})
      for (const Dtype dtype : kTrained)
        for (const Size& size : {Size{96, 40, 72}, Size{33, 17, 65}})
          for (const bool accumulates : {false, true})
            for (const std::int64_t shift : {0, 1}) {
              CAPTURE(to_string(type));
              CAPTURE(to_string(output));
              CAPTURE(to_string(dtype));
              CAPTURE(size.m);
              CAPTURE(accumulates);
              CAPTURE(shift);
              const GemmProblem problem{.m = size.m,
                                        .n = size.n,
                                        .k = size.k,
                                        .type = type,
                                        .layout = layout,
                                        .output = output,
                                        .accumulates = accumulates};
              check(bench, problem, dtype, shift);
            }
  }
}

}  // namespace

TEST_CASE(
    "a product with a bias adds it to every row once, whatever the dtypes, the vector's alignment and what is in C") {
  check_each(GemmLayout::Forward, check_bias);
}

TEST_CASE(
    "a weight gradient's bias gradient is the column sums of dy: added where the weight's is, else in place of what is "
    "there") {
  check_each(GemmLayout::WeightGradient, check_bias_gradient);
}

TEST_CASE("alpha is the product's, not the bias's") {
  Bench bench;
  const GemmProblem problem{.m = 24, .n = 16, .k = 32, .alpha = 0.25F};
  check_bias(bench, problem, Dtype::F32, 0);
}

TEST_CASE("one kept product adds the bias that each call names") {
  Bench bench;
  constexpr std::int64_t kRows = 8, kWidth = 64;
  const GemmProblem problem{.m = kRows, .n = kWidth, .k = 16};
  const Tensor zeros = bench.random(kWidth * 16, Dtype::F32, 0, 0, 0), ones = bench.random(kWidth, Dtype::F32, 1, 1, 0),
               twos = bench.random(kWidth, Dtype::F32, 2, 2, 0),
               fours_behind = bench.random(kWidth, Dtype::F32, 4, 4, 0, 4);  // by 16 bytes
  const Tensor* const biases[] = {&ones, &twos, &fours_behind};
  std::vector<Tensor> results;
  for (int i = 0; i < 3; ++i) results.push_back(bench.empty(kRows * kWidth, Dtype::F32));
  for (std::size_t i = 0; i < 3; ++i)
    gemm_and_bias(bench.device, problem, zeros.data(), zeros.data(), results[i].data(), all_of(*biases[i]),
                  *bench.stream);
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(bench.download(results[i]) == Doubles(kRows * kWidth, std::vector{1.0, 2.0, 4.0}[i]));
}

}  // namespace gpuplan::test
