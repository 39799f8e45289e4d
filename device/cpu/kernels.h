// The kernels of the CPU device: plain functions over memory, each running on the calling thread's OpenMP team,
// compiled once per instruction set (cmake/CpuVariants.cmake). A kernel is a function `run` in one of kernels/*.cpp;
// the declarations and the tables derive from the list in device/kernels.h.
#pragma once

#include "device/cpu/variant.h"
#include "device/kernels.h"

namespace gpuplan {

/// Part of a row-major matrix of 16-bit numbers: [rows, columns], with `stride` elements from one row to the next.
struct MatrixBlock {
  Numbers first;
  std::int64_t rows{}, columns{}, stride{};
};

/// One entry per kernel, and two that the matrix products are made with: a block as dense fp32, and such a block
/// rounded back to the block's dtype. Unsupported dtypes throw BugError before any work. Every sum is cut by shape and
/// not by thread, so results do not depend on the number of threads.
struct CpuKernels {
#define GPUPLAN_CPU_KERNEL(Name)                \
  void (*Name)(const kernels::Name&) = nullptr; \
  auto of(const kernels::Name&) const { return Name; }
  GPUPLAN_KERNELS(GPUPLAN_CPU_KERNEL)
#undef GPUPLAN_CPU_KERNEL
  void (*widen_block)(const MatrixBlock&, float*) = nullptr;
  void (*narrow_block)(const float*, const MatrixBlock&) = nullptr;
};

/// Returns the kernels of the widest instruction set that this processor runs.
const CpuKernels& cpu_kernels();

namespace baseline {
extern const CpuKernels kKernels;
}
namespace avx2 {
extern const CpuKernels kKernels;
}
namespace avx512 {
extern const CpuKernels kKernels;
}

namespace GPUPLAN_CPU_VARIANT {
#define GPUPLAN_CPU_KERNEL(Name) void run(const kernels::Name& k);
GPUPLAN_KERNELS(GPUPLAN_CPU_KERNEL)
#undef GPUPLAN_CPU_KERNEL
void widen_block(const MatrixBlock& from, float* to);
void narrow_block(const float* from, const MatrixBlock& to);
}  // namespace GPUPLAN_CPU_VARIANT

}  // namespace gpuplan
