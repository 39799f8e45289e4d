// A row-major product as cuBLASLt takes it, column-major. A row-major [r, c] matrix is, to a column-major reader, the
// [c, r] transpose with leading dimension c; so we ask for C^T [n, m], whose first operand is B and whose second is A:
//
//   Forward         C = A B^T  =>  C^T = B A^T    B is read as [k, n]: transposed      A as [k, m]: as it is      "TN"
//   InputGradient   C = A B    =>  C^T = B^T A^T  B is read as [n, k]: as it is        A as [k, m]: as it is      "NN"
//   WeightGradient  C = A^T B  =>  C^T = B^T A    B is read as [n, k]: as it is        A as [m, k]: transposed    "NT"
//
// Plain C++, so that it is tested without a GPU.
#pragma once

#include <cstdint>
#include <string>

#include "device/cuda/capability.h"
#include "device/device.h"

namespace gpuplan::cuda {

/// A column-major matrix of a batch; `stride` elements from one problem to the next.
struct ColumnMajor {
  std::int64_t rows{}, columns{}, leading{}, stride{};
};

struct GemmOperands {
  ColumnMajor first, second, result;  // B, A, C
  bool is_first_transposed{}, is_second_transposed{};
};

/// Extra work of cuBLASLt in the pass of a product: add a bias [n] to every row of C, which are columns of C^T; or sum
/// A = dy [k, m] of a weight gradient over k, the bias gradient [m]. A is the second operand of C^T = B^T A, so these
/// are the sums of cuBLASLt's B.
enum class Epilogue : std::uint8_t { None, Bias, BiasGradient };

/// The vector that an epilogue reads, or writes without looking at what is there.
struct EpilogueVector {
  Epilogue use = Epilogue::None;
  const void* data = nullptr;
  Dtype dtype{};
};

/// Column-major view of a row-major [rows, columns] matrix.
constexpr ColumnMajor as_column_major(std::int64_t rows, std::int64_t columns) {
  return {.rows = columns, .columns = rows, .leading = columns, .stride = rows * columns};
}

constexpr GemmOperands column_major_operands(const GemmProblem& p) {
  const bool is_forward = p.layout == GemmLayout::Forward, is_weight = p.layout == GemmLayout::WeightGradient;
  return {.first = is_forward ? as_column_major(p.n, p.k) : as_column_major(p.k, p.n),
          .second = is_weight ? as_column_major(p.k, p.m) : as_column_major(p.m, p.k),
          .result = as_column_major(p.m, p.n),
          .is_first_transposed = is_forward,
          .is_second_transposed = is_weight};
}

/// Says why this GPU cannot run the product as it stands; empty when it can.
inline std::string gemm_obstacle(const GemmProblem& p, ComputeCapability gpu) {
  const std::string type(to_string(p.type)), name = architecture_name(gpu);
  if (!multiplies(gpu, p.type)) return name + " has no tensor cores for " + type;
  if (p.type != GemmType::F8) return {};
  if (p.layout != GemmLayout::Forward && !multiplies_fp8_in_any_layout(gpu))
    return "cuBLASLt multiplies fp8 on " + name + " only in the forward layout: transpose an operand first";
  if (p.m % 16 != 0 || p.n % 16 != 0 || p.k % 16 != 0) return "fp8 needs m, n and k that are multiples of 16";
  return {};
}

/// Says whether cuBLASLt documents the product with this epilogue: vectors are of C's dtype (of bf16 for fp8, which
/// training does not multiply), aligned as its kernels load them. Batches have a stride of their own, and whether alpha
/// scales the sums is not said. Source: the table of data types of cublasLtMatmul() in the cuBLAS documentation,
/// CUBLASLT_MATMUL_DESC_BIAS_POINTER in cublasLt.h.
inline bool is_documented(const GemmProblem& p, const EpilogueVector& vector) {
  constexpr std::uintptr_t kVectorAlignment = 16;
  if (p.batch != 1 || p.type == GemmType::F8 || vector.dtype != p.output) return false;
  if (reinterpret_cast<std::uintptr_t>(vector.data) % kVectorAlignment != 0) return false;
  return vector.use == Epilogue::Bias || (p.layout == GemmLayout::WeightGradient && !p.accumulates && p.alpha == 1);
}

/// The largest power of two, up to 256, that divides all three addresses: what the algorithm may count on.
inline std::uint32_t common_alignment(const void* a, const void* b, const void* c) {
  const auto bits = reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b) |
                    reinterpret_cast<std::uintptr_t>(c) | std::uintptr_t(256);
  return std::uint32_t(bits & (~bits + 1));
}

}  // namespace gpuplan::cuda
