#include "device/cuda/gemm.h"

#include <string>

#include <fmt/format.h>

namespace gpuplan::cuda {
namespace {

cudaDataType_t data_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::F32: return CUDA_R_32F;
    case Dtype::BF16: return CUDA_R_16BF;
    case Dtype::F16: return CUDA_R_16F;
    case Dtype::F8E4M3: return CUDA_R_8F_E4M3;
    default: throw BugError(fmt::format("no product of {} on a GPU", to_string(dtype)));
  }
}

LtHandle create_handle() {
  cublasLtHandle_t handle = nullptr;
  cublas_check(cublasLtCreate(&handle), "starting");
  return LtHandle(handle);
}

LtMatrix create_matrix(const ColumnMajor& m, Dtype dtype, std::int64_t batch) {
  cublasLtMatrixLayout_t matrix = nullptr;
  cublas_check(
      cublasLtMatrixLayoutCreate(&matrix, data_type(dtype), std::uint64_t(m.rows), std::uint64_t(m.columns), m.leading),
      "describing a matrix");
  LtMatrix owner(matrix);
  const auto count = std::int32_t(batch);
  const auto set = [&](cublasLtMatrixLayoutAttribute_t what, const auto& value) {
    cublas_check(cublasLtMatrixLayoutSetAttribute(matrix, what, &value, sizeof value), "describing a batch");
  };
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count);
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, m.stride);
  return owner;
}

template <class Value>
void describe_product(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t what, const Value& value) {
  cublas_check(cublasLtMatmulDescSetAttribute(product, what, &value, sizeof value), "describing a product");
}

void set_transposed(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t operand, bool is_transposed) {
  describe_product(product, operand, is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
}

void set_vector(cublasLtMatmulDesc_t product, const void* vector) {
  describe_product(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
}

/// Algorithms are chosen for vectors aligned as this one.
void set_epilogue(cublasLtMatmulDesc_t product, const EpilogueVector& vector) {
  if (vector.use == Epilogue::None) return;
  describe_product(product, CUBLASLT_MATMUL_DESC_EPILOGUE,
                   vector.use == Epilogue::Bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_BGRADB);
  describe_product(product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(vector.dtype));
  set_vector(product, vector.data);
}

/// Sums in fp32 always; fp8 without its fast, less exact accumulation.
LtProduct create_product(const GemmOperands& operands, GemmType type, const EpilogueVector& vector) {
  cublasLtMatmulDesc_t product = nullptr;
  const auto compute = type == GemmType::TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  cublas_check(cublasLtMatmulDescCreate(&product, compute, CUDA_R_32F), "describing a product");
  LtProduct owner(product);
  set_transposed(product, CUBLASLT_MATMUL_DESC_TRANSA, operands.is_first_transposed);
  set_transposed(product, CUBLASLT_MATMUL_DESC_TRANSB, operands.is_second_transposed);
  set_epilogue(product, vector);
  return owner;
}

LtPreference create_preference(Bytes workspace, std::uint32_t alignment) {
  cublasLtMatmulPreference_t preference = nullptr;
  cublas_check(cublasLtMatmulPreferenceCreate(&preference), "stating preferences");
  LtPreference owner(preference);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
    cublas_check(cublasLtMatmulPreferenceSetAttribute(preference, what, &value, sizeof value), "stating preferences");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t(workspace.count));
  for (const auto what : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(what, alignment);
  return owner;
}

std::string describe(const GemmProblem& p) {
  return fmt::format("{} {} product {}x{}x{}, batch {}, {} out", to_string(p.type), to_string(p.layout), p.m, p.n, p.k,
                     p.batch, to_string(p.output));
}

}  // namespace

GemmRunner::GemmRunner(ComputeCapability gpu) : gpu_(gpu), handle_(create_handle()) {}

std::optional<cublasLtMatmulAlgo_t> GemmRunner::chosen_algorithm(const Plan& plan, std::uint32_t alignment) const {
  const LtPreference preference = create_preference(gemm_workspace(gpu_), alignment);
  cublasLtMatmulHeuristicResult_t found{};
  int num_found = 0;
  const auto status =
      cublasLtMatmulAlgoGetHeuristic(handle_.get(), plan.product.get(), plan.first.get(), plan.second.get(),
                                     plan.result.get(), plan.result.get(), preference.get(), 1, &found, &num_found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && num_found == 0)) return {};
  cublas_check(status, "choosing an algorithm");
  return found.algo;
}

GemmRunner::Plan GemmRunner::make_plan(const GemmProblem& problem, std::uint32_t alignment,
                                       const EpilogueVector& vector) const {
  if (const auto obstacle = gemm_obstacle(problem, gpu_); !obstacle.empty())
    throw EnvError(obstacle + " (" + describe(problem) + ")");
  const GemmOperands operands = column_major_operands(problem);
  const Dtype input = operand_dtype(problem.type);
  Plan plan{.product = create_product(operands, problem.type, vector),
            .first = create_matrix(operands.first, input, problem.batch),
            .second = create_matrix(operands.second, input, problem.batch),
            .result = create_matrix(operands.result, problem.output, problem.batch),
            .algorithm = {}};
  plan.algorithm = chosen_algorithm(plan, alignment);
  return plan;
}

const GemmRunner::Plan& GemmRunner::plan_of(const GemmProblem& problem, std::uint32_t alignment,
                                            const EpilogueVector& vector) {
  const Key key{problem.m,
                problem.n,
                problem.k,
                problem.batch,
                problem.type,
                problem.layout,
                problem.output,
                problem.accumulates,
                vector.use,
                alignment,
                common_alignment(vector.data, vector.data, vector.data)};
  auto plan = plans_.find(key);
  if (plan == plans_.end()) plan = plans_.emplace(key, make_plan(problem, alignment, vector)).first;
  return plan->second;
}

void GemmRunner::multiply(const Plan& plan, const GemmProblem& problem, const void* a, const void* b, void* c,
                          CudaStream& stream) {
  const float beta = problem.accumulates ? 1.0F : 0.0F;
  const Bytes workspace = gemm_workspace(gpu_);
  const auto status =
      cublasLtMatmul(handle_.get(), plan.product.get(), &problem.alpha, b, plan.first.get(), a, plan.second.get(),
                     &beta, c, plan.result.get(), c, plan.result.get(), &*plan.algorithm, stream.workspace(workspace),
                     std::size_t(workspace.count), stream.native());
  if (status != CUBLAS_STATUS_SUCCESS) cublas_check(status, describe(problem));
}

void GemmRunner::run(const GemmProblem& problem, const void* a, const void* b, void* c, CudaStream& stream) {
  if (problem.m * problem.n * problem.batch == 0) return;
  const Plan& plan = plan_of(problem, common_alignment(a, b, c), {});
  if (!plan.algorithm) throw EnvError("cuBLASLt has no algorithm for this " + describe(problem));
  multiply(plan, problem, a, b, c, stream);
}

bool GemmRunner::try_run(const GemmProblem& problem, const void* a, const void* b, void* c,
                         const EpilogueVector& vector, CudaStream& stream) {
  if (problem.m * problem.n * problem.k == 0 || !is_documented(problem, vector)) return false;
  const Plan& plan = plan_of(problem, common_alignment(a, b, c), vector);
  if (!plan.algorithm) return false;
  set_vector(plan.product.get(), vector.data);
  multiply(plan, problem, a, b, c, stream);
  return true;
}

}  // namespace gpuplan::cuda
