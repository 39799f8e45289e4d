// What a GPU's compute capability decides. Plain C++, so that it is tested without a GPU.
#pragma once

#include <string>
#include <vector>

#include "base/gemm_kind.h"
#include "base/units.h"

namespace gpuplan::cuda {

struct ComputeCapability {
  int major{}, minor{};
  constexpr int number() const { return 10 * major + minor; }  // 90 of 9.0
};

inline std::string architecture_name(ComputeCapability gpu) { return "sm_" + std::to_string(gpu.number()); }

/// Has tensor cores for this format (fp32 runs on the plain cores of every GPU).
/// Source: CUDA C++ Programming Guide, "Compute Capabilities", table of tensor core input types.
constexpr bool multiplies(ComputeCapability gpu, GemmType type) {
  switch (type) {
    case GemmType::F32: return true;
    case GemmType::F16: return gpu.number() >= 70;
    case GemmType::TF32:
    case GemmType::BF16: return gpu.number() >= 80;
    case GemmType::F8: return gpu.number() >= 89;
  }
  return false;
}

inline std::vector<GemmType> gemm_types(ComputeCapability gpu) {
  std::vector<GemmType> types;
  for (const GemmType type : kGemmTypes)
    if (multiplies(gpu, type)) types.push_back(type);
  return types;
}

/// Whether fp8 operands may lie in any layout. Elsewhere cuBLASLt takes only the TN form, which is GemmLayout::Forward.
/// Source: cuBLAS documentation, cublasLtMatmul, requirements of FP8 kernels: TN on 8.9, 9.0 and 12.x.
constexpr bool multiplies_fp8_in_any_layout(ComputeCapability gpu) { return gpu.major == 10 || gpu.major == 11; }

/// Scratch memory that a product may use, one per stream.
/// Source: PyTorch's choice for cuBLAS, aten/src/ATen/cuda/CublasHandlePool.cpp: 32 MiB from Hopper on (as
/// cublasSetWorkspace recommends there), else 8 MiB.
inline constexpr Bytes kHopperWorkspace{std::int64_t(32) << 20}, kWorkspace{std::int64_t(8) << 20};
constexpr Bytes gemm_workspace(ComputeCapability gpu) { return gpu.major >= 9 ? kHopperWorkspace : kWorkspace; }

}  // namespace gpuplan::cuda
