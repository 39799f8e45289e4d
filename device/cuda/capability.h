// What a GPU's compute capability decides. Plain C++, so that it is tested without a GPU.
#pragma once

#include <string>
#include <vector>

#include "base/operation_kinds.h"
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

/// Says why the attention kernel cannot run this; empty when it can. Tensor cores work on 16-bit numbers, fp32 runs on
/// the plain cores. Heads of 256 columns need more shared memory than sm_75 has for each of its kernels, which the
/// launcher says.
inline std::string attention_obstacle(Dtype dtype, std::int64_t head_size, ComputeCapability gpu) {
  if (dtype != Dtype::F32 && dtype != Dtype::F16 && dtype != Dtype::BF16)
    return "attention takes fp32, fp16 and bf16, not " + std::string(to_string(dtype));
  if (head_size <= 0 || head_size > 256)
    return "attention takes head sizes up to 256, not " + std::to_string(head_size);
  if (dtype == Dtype::BF16 && !multiplies(gpu, GemmType::BF16))
    return architecture_name(gpu) + " has no tensor cores for bf16";
  return {};
}

/// Says whether fp8 operands may lie in any layout. Elsewhere cuBLASLt takes only the TN form, which is
/// GemmLayout::Forward. Source: cuBLAS documentation, cublasLtMatmul, requirements of FP8 kernels: TN on 8.9, 9.0 and
/// 12.x.
constexpr bool multiplies_fp8_in_any_layout(ComputeCapability gpu) { return gpu.major == 10 || gpu.major == 11; }

/// Scratch memory that a product may use, one per stream.
/// Source: PyTorch's choice for cuBLAS, aten/src/ATen/cuda/CublasHandlePool.cpp: 32 MiB from Hopper on (as
/// cublasSetWorkspace recommends there), else 8 MiB.
inline constexpr Bytes kHopperWorkspace{std::int64_t(32) << 20}, kWorkspace{std::int64_t(8) << 20};
constexpr Bytes gemm_workspace(ComputeCapability gpu) { return gpu.major >= 9 ? kHopperWorkspace : kWorkspace; }

}  // namespace gpuplan::cuda
