// Which products take a bias along, on a cuBLASLt that has all it documents and on one that has no epilogues; and that
// ours refuses what NVIDIA's would.
#include "cuda_device/fake/tests/ranks.h"
#include "cuda_device/kernels/training_bench.h"
#include "device/products.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

namespace gpuplan::test {
namespace {

constexpr std::int64_t kSize = 32;

GemmProblem square(GemmType type, GemmLayout layout, Dtype output) {
  return {.m = kSize, .n = kSize, .k = kSize, .type = type, .layout = layout, .output = output};
}

/// Whether the device has the product in one pass.
bool takes_bias(Bench& bench, const GemmProblem& p, Dtype dtype, std::int64_t shift = 0) {
  const Tensor x = bench.empty(2 * kSize * kSize, Dtype::F32), bias = bench.empty(kSize, dtype, shift);
  const bool is_taken =
      bench.device.try_gemm_with_bias(p, x.data(), x.data(), x.data(), bias.data(), dtype, *bench.stream);
  bench.stream->synchronise();
  return is_taken;
}
bool takes_bias_gradient(Bench& bench, const GemmProblem& p, Dtype dtype, std::int64_t shift = 0) {
  const Tensor x = bench.empty(2 * kSize * kSize, Dtype::F32), gradient = bench.empty(kSize, dtype, shift);
  const bool is_taken =
      bench.device.try_gemm_with_bias_gradient(p, x.data(), x.data(), x.data(), gradient.data(), dtype, *bench.stream);
  bench.stream->synchronise();
  return is_taken;
}

/// A product of [4, 8] by [8, 2] in fp32, column-major, as cuBLASLt is asked for it.
class Asked {
 public:
  Asked(cublasLtEpilogue_t epilogue, const void* vector, cudaDataType_t vector_type) {
    cublasLtCreate(&handle_);
    cublasLtMatmulDescCreate(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, vector_type);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
    cublasLtMatrixLayoutCreate(&a_, CUDA_R_32F, 4, 8, 4);
    cublasLtMatrixLayoutCreate(&b_, CUDA_R_32F, 8, 2, 8);
    cublasLtMatrixLayoutCreate(&d_, CUDA_R_32F, 4, 2, 4);
    cublasLtMatmulPreferenceCreate(&preference_);
  }
  ~Asked() {
    cublasLtMatmulPreferenceDestroy(preference_);
    for (const cublasLtMatrixLayout_t matrix : {a_, b_, d_}) cublasLtMatrixLayoutDestroy(matrix);
    cublasLtMatmulDescDestroy(product_);
    cublasLtDestroy(handle_);
  }
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;

  template <class Value>
  void set(cublasLtMatmulDescAttributes_t what, const Value& value) {
    CHECK(cublasLtMatmulDescSetAttribute(product_, what, &value, sizeof value) == CUBLAS_STATUS_SUCCESS);
  }
  cublasStatus_t choose() {
    return cublasLtMatmulAlgoGetHeuristic(handle_, product_, a_, b_, d_, d_, preference_, 1, &chosen_, &num_chosen);
  }
  cublasStatus_t multiply(const Tensor& a, const Tensor& b, const Tensor& d, const Tensor& workspace) {
    const float one = 1, zero = 0;
    const auto status =
        cublasLtMatmul(handle_, product_, &one, a.data(), a_, b.data(), b_, &zero, d.data(), d_, d.data(), d_,
                       &chosen_.algo, workspace.data(), std::size_t(workspace.count), nullptr);
    cudaStreamSynchronize(nullptr);
    return status;
  }
  int num_chosen = 0;

 private:
  cublasLtHandle_t handle_{};
  cublasLtMatmulDesc_t product_{};
  cublasLtMatrixLayout_t a_{}, b_{}, d_{};
  cublasLtMatmulPreference_t preference_{};
  cublasLtMatmulHeuristicResult_t chosen_{};
};

}  // namespace

TEST_CASE("a bias goes along where cuBLASLt documents it: of C's dtype, for one aligned vector") {
  Bench bench;
  const GemmProblem fp32 = square(GemmType::F32, GemmLayout::Forward, Dtype::F32),
                    bf16 = square(GemmType::BF16, GemmLayout::Forward, Dtype::BF16);
  CHECK(takes_bias(bench, fp32, Dtype::F32));
  CHECK(takes_bias(bench, bf16, Dtype::BF16));
  CHECK(takes_bias(bench, square(GemmType::BF16, GemmLayout::Forward, Dtype::F32), Dtype::F32));
  CHECK(takes_bias(bench, fp32, Dtype::F32, 4));  // 16 bytes behind an aligned address
  CHECK_FALSE(takes_bias(bench, fp32, Dtype::F32, 1));
  CHECK_FALSE(takes_bias(bench, bf16, Dtype::F32));
  CHECK_FALSE(takes_bias(bench, fp32, Dtype::BF16));
  GemmProblem batched = fp32;
  batched.m = kSize / 2, batched.batch = 2;
  CHECK_FALSE(takes_bias(bench, batched, Dtype::F32));
}

TEST_CASE("a bias gradient comes along where it is written, not where it is added to") {
  Bench bench;
  const GemmProblem fp32 = square(GemmType::F32, GemmLayout::WeightGradient, Dtype::F32);
  CHECK(takes_bias_gradient(bench, fp32, Dtype::F32));
  CHECK(takes_bias_gradient(bench, square(GemmType::BF16, GemmLayout::WeightGradient, Dtype::BF16), Dtype::BF16));
  CHECK(takes_bias_gradient(bench, square(GemmType::BF16, GemmLayout::WeightGradient, Dtype::F32), Dtype::F32));
  CHECK_FALSE(takes_bias_gradient(bench, square(GemmType::BF16, GemmLayout::WeightGradient, Dtype::F32), Dtype::BF16));
  CHECK_FALSE(takes_bias_gradient(bench, fp32, Dtype::F32, 1));
  GemmProblem added = fp32, scaled = fp32;
  added.accumulates = true, scaled.alpha = 2;
  CHECK_FALSE(takes_bias_gradient(bench, added, Dtype::F32));
  CHECK_FALSE(takes_bias_gradient(bench, scaled, Dtype::F32));
}

TEST_CASE("where cuBLASLt has no epilogues, products are told so once and done in two passes, with the same result") {
  const auto results = [](Bench& bench, Tensor& y, Tensor& gradient) {
    const Tensor x = bench.random(kSize * kSize, Dtype::F32, -1, 1, 1),
                 bias = bench.random(kSize, Dtype::F32, -1, 1, 2);
    y = bench.empty(kSize * kSize, Dtype::F32), gradient = bench.empty(kSize, Dtype::F32);
    const Tensor dw = bench.empty(kSize * kSize, Dtype::F32);
    gemm_and_bias(bench.device, square(GemmType::F32, GemmLayout::Forward, Dtype::F32), x.data(), x.data(), y.data(),
                  all_of(bias), *bench.stream);
    gemm_and_bias_gradient(bench.device, square(GemmType::F32, GemmLayout::WeightGradient, Dtype::F32), x.data(),
                           x.data(), dw.data(), all_of(gradient), *bench.stream);
  };
  Bench usual;
  Tensor y, gradient, plain_y, plain_gradient;
  results(usual, y, gradient);
  {
    const Played machine(fake::Machine{.has_epilogues = false});
    const auto device = device_backend(DeviceKind::Cuda).open({.index = 0});
    Bench bench{.device = *device, .stream = device->create_stream()};
    const GemmProblem forward = square(GemmType::F32, GemmLayout::Forward, Dtype::F32);
    CHECK_FALSE(takes_bias(bench, forward, Dtype::F32));
    CHECK_FALSE(takes_bias_gradient(bench, square(GemmType::F32, GemmLayout::WeightGradient, Dtype::F32), Dtype::F32));
    results(bench, plain_y, plain_gradient);
    check_close(bench.download(plain_y), usual.download(y), 1e-6, 1);
    check_close(bench.download(plain_gradient), usual.download(gradient), 1e-6, 1);
    fake::play({});
    CHECK_FALSE(takes_bias(bench, forward, Dtype::F32));  // still: the answer is kept with the plan
  }
}

TEST_CASE(
    "the fake refuses vectors that cuBLASLt would: of another dtype, missing, aligned less than the one it chose for") {
  Bench bench;
  const Tensor a = bench.random(32, Dtype::F32, -1, 1, 1), b = bench.random(16, Dtype::F32, -1, 1, 2),
               d = bench.empty(8, Dtype::F32), workspace = bench.empty(1024, Dtype::F32),
               vector = bench.empty(4, Dtype::F32), behind = bench.empty(4, Dtype::F32, 1);
  bench.stream->synchronise();
  CHECK(Asked(CUBLASLT_EPILOGUE_BIAS, vector.data(), CUDA_R_16BF).choose() == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(Asked(CUBLASLT_EPILOGUE_GELU_BIAS, vector.data(), CUDA_R_32F).choose() == CUBLAS_STATUS_NOT_SUPPORTED);
  Asked asked(CUBLASLT_EPILOGUE_BIAS, vector.data(), CUDA_R_32F);
  REQUIRE(asked.choose() == CUBLAS_STATUS_SUCCESS);
  CHECK(asked.num_chosen == 1);
  CHECK(asked.multiply(a, b, d, workspace) == CUBLAS_STATUS_SUCCESS);
  for (const void* const wrong :
       {static_cast<const void*>(nullptr), static_cast<const void*>(behind.data()), static_cast<const void*>(&asked)}) {
    asked.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, wrong);
    CHECK(asked.multiply(a, b, d, workspace) == CUBLAS_STATUS_INVALID_VALUE);
  }
}

TEST_CASE("the fake's BGRADA sums rows of A, BGRADB columns of B") {
  Bench bench;
  const Tensor a = bench.random(32, Dtype::F32, -1, 1, 1), b = bench.random(16, Dtype::F32, -1, 1, 2),
               d = bench.empty(8, Dtype::F32), workspace = bench.empty(1024, Dtype::F32),
               of_a = bench.empty(4, Dtype::F32), of_b = bench.empty(2, Dtype::F32);
  const Doubles left = bench.download(a), right = bench.download(b);
  Doubles rows(4), columns(2);
  for (std::size_t i = 0; i < left.size(); ++i) rows[i % 4] += left[i];
  for (std::size_t i = 0; i < right.size(); ++i) columns[i / 8] += right[i];
  for (const auto& [epilogue, vector] :
       {std::pair{CUBLASLT_EPILOGUE_BGRADA, &of_a}, {CUBLASLT_EPILOGUE_BGRADB, &of_b}}) {
    Asked asked(epilogue, vector->data(), CUDA_R_32F);
    REQUIRE(asked.choose() == CUBLAS_STATUS_SUCCESS);
    CHECK(asked.multiply(a, b, d, workspace) == CUBLAS_STATUS_SUCCESS);
  }
  check_close(bench.download(of_a), rows, 1e-6, 1);
  check_close(bench.download(of_b), columns, 1e-6, 1);
}

}  // namespace gpuplan::test
