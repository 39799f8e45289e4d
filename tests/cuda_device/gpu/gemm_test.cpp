#include "base/error.h"
#include "cuda_device/kernels/bench.h"

#include <algorithm>

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

/// tf32 keeps 10 bits of what it multiplies; sums are fp32.
double tolerance_of_product(const GemmProblem& problem) {
  const double inputs = problem.type == GemmType::TF32 ? 2e-3 : 1e-4;
  return std::max(inputs, problem.output == Dtype::F32 ? 0 : tolerance_of(problem.output));
}

void check_product(const GemmProblem& problem) {
  CAPTURE(to_string(problem.type));
  CAPTURE(to_string(problem.layout));
  CAPTURE(to_string(problem.output));
  Bench bench;
  const Dtype input = operand_dtype(problem.type);
  const Tensor a = bench.random(problem.m * problem.k * problem.batch, input, -1, 1, 1);
  const Tensor b = bench.random(problem.n * problem.k * problem.batch, input, -1, 1, 2);
  const Tensor c = bench.random(problem.m * problem.n * problem.batch, problem.output, -1, 1, 3);
  Doubles expected = naive_product(problem, bench.download(a), bench.download(b));
  const Doubles before = bench.download(c);
  if (problem.accumulates)
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
  bench.device.gemm(problem, a.data(), b.data(), c.data(), *bench.stream);
  check_close(bench.download(c), expected, tolerance_of_product(problem), std::sqrt(double(problem.k)));
}

bool has(GemmType type) {
  const auto types = device_under_test().facts().gemm_types;
  return std::find(types.begin(), types.end(), type) != types.end();
}

}  // namespace

TEST_CASE("products are right in every format, layout and output") {
  for (const GemmType type : {GemmType::F32, GemmType::TF32, GemmType::BF16, GemmType::F16}) {
    if (!has(type)) continue;
    for (const GemmLayout layout : kGemmLayouts)
      for (const Dtype output : {Dtype::F32, operand_dtype(type)})
        for (const bool accumulates : {false, true})
          check_product({.m = 96,
                         .n = 40,
                         .k = 72,
                         .batch = 3,
                         .type = type,
                         .layout = layout,
                         .output = output,
                         .accumulates = accumulates,
                         .alpha = 0.5F});
  }
}

TEST_CASE("products of odd sizes are right") {
  for (const GemmLayout layout : kGemmLayouts) {
    check_product({.m = 33, .n = 17, .k = 65, .type = GemmType::F32, .layout = layout});
    if (has(GemmType::BF16))
      check_product({.m = 33, .n = 17, .k = 65, .type = GemmType::BF16, .layout = layout, .output = Dtype::BF16});
  }
}

TEST_CASE("fp8 products are right in the layouts that the GPU has, and refused in words in others") {
  if (!has(GemmType::F8)) return;
  for (const GemmLayout layout : kGemmLayouts)
    for (const Dtype output : {Dtype::F32, Dtype::BF16}) {
      const GemmProblem problem{.m = 64, .n = 96, .k = 128, .type = GemmType::F8, .layout = layout, .output = output};
      try {
        check_product(problem);
      } catch (const EnvError& error) {
        CHECK(layout != GemmLayout::Forward);
        CHECK(std::string(error.what()).find("only in the forward layout") != std::string::npos);
      }
    }
}

TEST_CASE("two streams multiply at once without sharing a workspace") {
  Bench bench;
  const auto other = bench.device.create_stream();
  const GemmProblem problem{.m = 512, .n = 512, .k = 4096, .layout = GemmLayout::WeightGradient};
  const Tensor a = bench.random(512 * 4096, Dtype::F32, -1, 1, 1), b = bench.random(512 * 4096, Dtype::F32, -1, 1, 2);
  const Tensor first = bench.empty(512 * 512, Dtype::F32), second = bench.empty(512 * 512, Dtype::F32);
  bench.stream->synchronise();
  for (int i = 0; i < 20; ++i) {
    bench.device.gemm(problem, a.data(), b.data(), first.data(), *bench.stream);
    bench.device.gemm(problem, a.data(), b.data(), second.data(), *other);
  }
  other->synchronise();
  CHECK(bench.download(first) == bench.download(second));
}
