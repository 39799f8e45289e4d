// Products by cuBLASLt. What its heuristics chose for a problem is kept, so that they are asked once.
#pragma once

#include <compare>
#include <map>
#include <optional>

#include "device/cuda/capability.h"
#include "device/cuda/gemm_operands.h"
#include "device/cuda/lt.h"
#include "device/cuda/stream.h"
#include "device/device.h"

namespace gpuplan::cuda {

/// Not for several threads at once, as a Device is not.
class GemmRunner {
 public:
  explicit GemmRunner(ComputeCapability gpu);
  void run(const GemmProblem& problem, const void* a, const void* b, void* c, CudaStream& stream);
  /// False, with nothing enqueued, where cuBLASLt has no such product.
  bool try_run(const GemmProblem& problem, const void* a, const void* b, void* c, const EpilogueVector& vector,
               CudaStream& stream);

 private:
  /// What an algorithm depends on: all of the problem but alpha, and how matrices and vector are aligned.
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
