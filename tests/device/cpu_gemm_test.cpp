// GEMM of the CPU device against three loops in double.
#include <algorithm>

#include "cpu_fixture.h"
#include "device/products.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

std::size_t at(std::int64_t batch, std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns) {
  return std::size_t((batch * rows + row) * columns + column);
}

std::vector<double> naive(const GemmProblem& p, const std::vector<double>& a, const std::vector<double>& b,
                          std::vector<double> c) {
  for (std::int64_t z = 0; z < p.batch; ++z)
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) {
        double sum = 0;
        for (std::int64_t q = 0; q < p.k; ++q) {
          const double left =
              p.layout == GemmLayout::WeightGradient ? a[at(z, q, i, p.k, p.m)] : a[at(z, i, q, p.m, p.k)];
          const double right = p.layout == GemmLayout::Forward ? b[at(z, j, q, p.n, p.k)] : b[at(z, q, j, p.k, p.n)];
          sum += left * right;
        }
        double& out = c[at(z, i, j, p.m, p.n)];
        out = p.alpha * sum + (p.accumulates ? out : 0);
      }
  return c;
}

void check(Cpu& cpu, const GemmProblem& p) {
  CAPTURE(to_string(p.type));
  CAPTURE(to_string(p.layout));
  CAPTURE(p.m);
  CAPTURE(p.n);
  CAPTURE(p.k);
  CAPTURE(p.batch);
  CAPTURE(p.accumulates);
  CAPTURE(p.alpha);
  const Dtype operand = operand_dtype(p.type);
  const Buffer a = cpu.random(p.m * p.k * p.batch, operand, 1), b = cpu.random(p.k * p.n * p.batch, operand, 2),
               c = cpu.random(p.m * p.n * p.batch, p.output, 3);
  const std::vector<double> expected = naive(p, doubles(a, operand), doubles(b, operand), doubles(c, p.output));
  cpu.device->gemm(p, a.data(), b.data(), c.data(), *cpu.stream);
  cpu.stream->synchronise();
  // Operands are exact; sums of k products of size 1 round in fp32, the result once to its own dtype.
  const double scale = std::sqrt(double(p.k));
  CHECK(worst_error(doubles(c, p.output), expected, scale) < rounding(p.output) + 4e-6);
}

}  // namespace

TEST_CASE(
    "a product of every layout, type and output equals the naive sum, for odd sizes, batches, alpha and accumulation" *
    needs_cpu()) {
  Cpu cpu;
  constexpr std::int64_t kSizes[][4] = {{1, 1, 1, 1},    {1, 37, 64, 1},  {33, 1, 129, 1}, {17, 31, 5, 1},
                                        {64, 64, 64, 1}, {96, 200, 3, 1}, {16, 8, 257, 1}, {65, 130, 67, 1},
                                        {7, 9, 11, 3},   {1, 64, 32, 4},  {32, 48, 64, 5}, {128, 16, 200, 1}};
  for (const GemmType type : cpu.device->facts().gemm_types)
    for (const GemmLayout layout : kGemmLayouts)
      for (const auto& [m, n, k, batch] : kSizes)
        for (const Dtype output : {Dtype::F32, operand_dtype(type)})
          for (const bool accumulates : {false, true})
            for (const float alpha : {1.0F, 0.125F})
              check(cpu, {.m = m,
                          .n = n,
                          .k = k,
                          .batch = batch,
                          .type = type,
                          .layout = layout,
                          .output = output,
                          .accumulates = accumulates,
                          .alpha = alpha});
}

TEST_CASE(
    "a bias is added to every row, and its gradient is the column sums of dy, added or written as the weight's is" *
    needs_cpu()) {
  Cpu cpu;
  constexpr std::int64_t kRows = 33, kIn = 20, kOut = 17;
  const Buffer x = cpu.random(kRows * kIn, Dtype::F32, 1), w = cpu.random(kOut * kIn, Dtype::F32, 2),
               bias = cpu.random(kOut, Dtype::F32, 3), dy = cpu.random(kRows * kOut, Dtype::F32, 4);
  for (const bool accumulates : {false, true}) {
    const Buffer y = cpu.random(kRows * kOut, Dtype::F32, 5), dw = cpu.random(kOut * kIn, Dtype::F32, 6),
                 dbias = cpu.random(kOut, Dtype::F32, 7);
    const GemmProblem forward{.m = kRows, .n = kOut, .k = kIn, .accumulates = accumulates};
    const GemmProblem gradient{
        .m = kOut, .n = kIn, .k = kRows, .layout = GemmLayout::WeightGradient, .accumulates = accumulates};
    std::vector<double> of_y = naive(forward, doubles(x, Dtype::F32), doubles(w, Dtype::F32), doubles(y, Dtype::F32));
    const std::vector<double> of_dw =
        naive(gradient, doubles(dy, Dtype::F32), doubles(x, Dtype::F32), doubles(dw, Dtype::F32));
    std::vector<double> of_dbias = accumulates ? doubles(dbias, Dtype::F32) : std::vector<double>(kOut);
    for (std::size_t i = 0; i < of_y.size(); ++i) {
      of_y[i] += doubles(bias, Dtype::F32)[i % kOut];
      of_dbias[i % kOut] += doubles(dy, Dtype::F32)[i];
    }
    gemm_and_bias(*cpu.device, forward, x.data(), w.data(), y.data(), {bias.data(), Dtype::F32}, *cpu.stream);
    gemm_and_bias_gradient(*cpu.device, gradient, dy.data(), x.data(), dw.data(), {dbias.data(), Dtype::F32},
                           *cpu.stream);
    cpu.stream->synchronise();
    CHECK(worst_error(doubles(y, Dtype::F32), of_y, 5) < 1e-6);
    CHECK(worst_error(doubles(dw, Dtype::F32), of_dw, 5) < 1e-6);
    CHECK(worst_error(doubles(dbias, Dtype::F32), of_dbias, 5) < 1e-6);
  }
}

TEST_CASE("more problems than are kept prepared still give the right results" * needs_cpu()) {
  Cpu cpu;
  for (std::int64_t n = 2; n < 602; n += 1) {
    if (n % 60 == 2) {
      check(cpu, {.m = 2, .n = n, .k = 33});
      continue;
    }
    const Buffer c = cpu.zeros(2 * n, Dtype::F32), a = cpu.zeros(66, Dtype::F32), b = cpu.zeros(33 * n, Dtype::F32);
    cpu.device->gemm({.m = 2, .n = n, .k = 33}, a.data(), b.data(), c.data(), *cpu.stream);
    cpu.stream->synchronise();
  }
  check(cpu, {.m = 2, .n = 2, .k = 33});
}

TEST_CASE("a type that the processor does not multiply is a misuse, told when the stream is waited for" * needs_cpu()) {
  Cpu cpu;
  const Buffer buffer = cpu.zeros(16, Dtype::F32);
  cpu.device->gemm({.m = 4, .n = 4, .k = 4, .type = GemmType::F8}, buffer.data(), buffer.data(), buffer.data(),
                   *cpu.stream);
  CHECK_THROWS_AS(cpu.stream->synchronise(), BugError);
}
