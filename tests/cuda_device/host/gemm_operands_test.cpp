#include <doctest/doctest.h>

#include "cuda_device/lt_reference.h"

using namespace gpuplan;
using namespace gpuplan::cuda;
using namespace gpuplan::test;

namespace {

Doubles some_numbers(std::int64_t count, int seed) {
  Doubles numbers(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = double((i * 7 + std::size_t(seed)) % 11) - 5;
  return numbers;
}

}  // namespace

TEST_CASE("a column-major library gets the operands that give the row-major product, in every layout and batched") {
  for (const GemmLayout layout : kGemmLayouts) {
    CAPTURE(to_string(layout));
    const GemmProblem problem{.m = 3, .n = 5, .k = 4, .batch = 2, .layout = layout, .alpha = 0.5F};
    const Doubles a = some_numbers(3 * 4 * 2, 1), b = some_numbers(5 * 4 * 2, 3);
    Doubles c(3 * 5 * 2);
    lt_product(problem, a, b, c);
    CHECK(c == naive_product(problem, a, b));
  }
}

TEST_CASE("the forward layout is the TN form that fp8 needs everywhere") {
  const GemmOperands operands = column_major_operands({.m = 3, .n = 5, .k = 4, .layout = GemmLayout::Forward});
  CHECK(operands.is_first_transposed);
  CHECK_FALSE(operands.is_second_transposed);
}

TEST_CASE("a GPU multiplies the formats that its compute capability has") {
  CHECK(gemm_types({7, 5}) == std::vector{GemmType::F32, GemmType::F16});
  CHECK(gemm_types({8, 6}) == std::vector{GemmType::F32, GemmType::TF32, GemmType::BF16, GemmType::F16});
  for (const ComputeCapability gpu : {ComputeCapability{8, 9}, {9, 0}, {10, 0}, {12, 0}})
    CHECK(gemm_types(gpu).size() == kGemmTypes.size());
}

TEST_CASE("fp8 outside the forward layout is refused but on data-centre Blackwell") {
  const GemmProblem forward{.m = 64, .n = 64, .k = 64, .type = GemmType::F8, .layout = GemmLayout::Forward};
  GemmProblem gradient = forward;
  gradient.layout = GemmLayout::InputGradient;
  for (const ComputeCapability gpu : {ComputeCapability{8, 9}, {9, 0}, {12, 0}}) {
    CHECK(gemm_obstacle(forward, gpu).empty());
    CHECK(gemm_obstacle(gradient, gpu).find("only in the forward layout") != std::string::npos);
  }
  CHECK(gemm_obstacle(gradient, {10, 0}).empty());
  CHECK(gemm_obstacle(forward, {8, 6}) == "sm_86 has no tensor cores for fp8");
}

TEST_CASE("fp8 needs sizes of whole 16-byte vectors") {
  CHECK_FALSE(gemm_obstacle({.m = 64, .n = 64, .k = 72, .type = GemmType::F8}, {9, 0}).empty());
  CHECK(gemm_obstacle({.m = 64, .n = 64, .k = 72, .type = GemmType::BF16}, {9, 0}).empty());
}

TEST_CASE(
    "dy of a weight gradient is what cuBLASLt calls B, and its BGRADB as long as D has columns: a sum per output "
    "feature") {
  constexpr std::int64_t kFeatures = 3, kRows = 4;
  const GemmOperands operands =
      column_major_operands({.m = kFeatures, .n = 5, .k = kRows, .layout = GemmLayout::WeightGradient});
  CHECK(operands.second.rows == kFeatures);
  CHECK(operands.second.columns == kRows);  // which op(B), transposed, sums over
  CHECK(operands.is_second_transposed);
  CHECK(operands.result.columns == kFeatures);
}

TEST_CASE("epilogues are asked for where cuBLASLt documents them") {
  const auto at = [](Epilogue use, Dtype dtype, std::uintptr_t address = 0x1000) {
    return EpilogueVector{.use = use, .data = reinterpret_cast<const void*>(address), .dtype = dtype};
  };
  for (const GemmType type : {GemmType::F32, GemmType::TF32, GemmType::BF16, GemmType::F16})
    for (const Dtype output : {Dtype::F32, operand_dtype(type)})
      for (const Dtype dtype : {Dtype::F32, Dtype::BF16, Dtype::F16}) {
        const GemmProblem forward{
            .m = 8, .n = 8, .k = 8, .type = type, .layout = GemmLayout::Forward, .output = output};
        CHECK(is_documented(forward, at(Epilogue::Bias, dtype)) == (dtype == output));
        CHECK_FALSE(is_documented(forward, at(Epilogue::BiasGradient, dtype)));
        GemmProblem gradient = forward;
        gradient.layout = GemmLayout::WeightGradient;
        CHECK(is_documented(gradient, at(Epilogue::BiasGradient, dtype)) == (dtype == output));
        CHECK_FALSE(is_documented(gradient, at(Epilogue::BiasGradient, dtype, 0x1008)));
        gradient.accumulates = true;  // the sums would replace what is there
        CHECK_FALSE(is_documented(gradient, at(Epilogue::BiasGradient, dtype)));
      }
  const GemmProblem fp8{.m = 16, .n = 16, .k = 16, .type = GemmType::F8, .output = Dtype::BF16},
      batched{.m = 8, .n = 8, .k = 8, .batch = 2};
  CHECK_FALSE(is_documented(fp8, at(Epilogue::Bias, Dtype::BF16)));
  CHECK_FALSE(is_documented(batched, at(Epilogue::Bias, Dtype::F32)));
}

TEST_CASE("the alignment told to cuBLASLt divides all three addresses, and is 256 at most") {
  const auto at = [](std::uintptr_t address) { return reinterpret_cast<const void*>(address); };
  CHECK(common_alignment(at(0x1000), at(0x2000), at(0x3000)) == 256);
  CHECK(common_alignment(at(0x1000), at(0x2010), at(0x3000)) == 16);
  CHECK(common_alignment(at(0x1004), at(0x2010), at(0x3000)) == 4);
}

TEST_CASE("the workspace of products is 32 MiB from Hopper on, else 8 MiB") {
  CHECK(gemm_workspace({9, 0}).count == 33554432);
  CHECK(gemm_workspace({8, 6}).count == 8388608);
}
