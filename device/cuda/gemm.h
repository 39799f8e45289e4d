// Products by cuBLASLt, the check of its calls, and owners of its handles. What its heuristics chose for a problem is
// kept, so that they are asked once.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <cublasLt.h>

#include "device/cuda/capability.h"
#include "device/cuda/check.h"
#include "device/cuda/gemm_operands.h"
#include "device/cuda/stream.h"
#include "device/device.h"

namespace gpuplan::cuda {

inline void cublas_check(cublasStatus_t status, std::string_view doing) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw EnvError("cuBLASLt: " + std::string(doing) + ": " + cublasLtGetStatusString(status));
}

using LtHandle = Owner<cublasLtHandle_t, &cublasLtDestroy>;
using LtProduct = Owner<cublasLtMatmulDesc_t, &cublasLtMatmulDescDestroy>;
using LtMatrix = Owner<cublasLtMatrixLayout_t, &cublasLtMatrixLayoutDestroy>;
using LtPreference = Owner<cublasLtMatmulPreference_t, &cublasLtMatmulPreferenceDestroy>;

/// Serves one thread at a time, as a Device does.
class GemmRunner {
 public:
  explicit GemmRunner(ComputeCapability gpu);
  void run(const GemmProblem& problem, const void* a, const void* b, void* c, CudaStream& stream);
  /// False, with nothing enqueued, where cuBLASLt has no such product.
  bool try_run(const GemmProblem& problem, const void* a, const void* b, void* c, const EpilogueVector& vector,
               CudaStream& stream);

 private:
  /// Key of an algorithm: all of the problem but alpha, and how matrices and vector are aligned.
  struct Key {
    std::int64_t m{}, n{}, k{}, batch{};
    GemmType type{};
    GemmLayout layout{};
    Dtype output{};
    bool accumulates{};
    Epilogue epilogue{};
    std::uint32_t alignment{}, vector_alignment{};
    auto operator<=>(const Key&) const = default;
  };
  struct Plan {
    LtProduct product;
    LtMatrix first, second, result;
    std::optional<cublasLtMatmulAlgo_t> algorithm;  // none: cuBLASLt has none
  };
  const Plan& plan_of(const GemmProblem& problem, std::uint32_t alignment, const EpilogueVector& vector);
  Plan make_plan(const GemmProblem& problem, std::uint32_t alignment, const EpilogueVector& vector) const;
  std::optional<cublasLtMatmulAlgo_t> chosen_algorithm(const Plan& plan, std::uint32_t alignment) const;
  void multiply(const Plan& plan, const GemmProblem& problem, const void* a, const void* b, void* c,
                CudaStream& stream);

  ComputeCapability gpu_;
  LtHandle handle_;
  std::map<Key, Plan> plans_;
};

}  // namespace gpuplan::cuda
