// The few instructions that CUDA C++ has no function for. The tests' emulator has a header of the same name with the
// same functions (tests/cuda_device/emulated/include), so nothing else in device/cuda holds assembly. Source: PTX
// ISA 9.0, "Warp-level matrix load instruction: ldmatrix", "Matrix fragments for mma.m16n8k16", "cp.async", "ex2".
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/cuda/number.cuh"

namespace gpuplan::cuda {

__device__ inline unsigned shared_address(const void* pointer) { return unsigned(__cvta_generic_to_shared(pointer)); }

/// Four 8 x 8 matrices of 16-bit numbers from shared memory. Lane l says where row l % 8 of matrix l / 8 lies (16
/// bytes, aligned), and gets of matrix m, in to[m], the numbers 2 (l % 4) and 2 (l % 4) + 1 of row l / 4: the first in
/// the low half.
__device__ inline void load_matrices(std::uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row)));
}
/// The same of the transposed matrices: rows 2 (l % 4) and 2 (l % 4) + 1 of column l / 4.
__device__ inline void load_transposed_matrices(std::uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row)));
}

/// 2^x; 0 where that is below the smallest normal number. exp2f takes three more instructions for those.
__device__ inline float power_of_2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

/// Says whether the tensor cores of the architecture that is compiled for take T.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
template <class T>
constexpr bool kHasTensorCores = !std::is_same_v<T, float>;
#else
template <class T>
constexpr bool kHasTensorCores = std::is_same_v<T, F16>;  // sm_75
#endif

/// d += a b. a: 16 x 16, its 8 x 8 quarters in the order (0, 0), (1, 0), (0, 1), (1, 1), each as load_matrices gives
/// it. b: 16 x 8, the transposed upper and lower half as load_matrices gives them. d: 16 x 8; of lane l the columns 2
/// (l % 4) and 2 (l % 4) + 1 of row l / 4, then of row l / 4 + 8.
template <class T>
__device__ void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t upper_b, std::uint32_t lower_b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  if constexpr (std::is_same_v<T, F16>) {  // 16 x 8 by 8 x 8, twice
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(upper_b));
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[2]), "r"(a[3]), "r"(lower_b));
  }
#else
  if constexpr (std::is_same_v<T, F16>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(upper_b), "r"(lower_b));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(upper_b), "r"(lower_b));
#endif
}

/// 16 bytes, both sides aligned to them; zeros when not `is_there`. They have arrived for this thread after
/// wait_for_copies, for the others after a barrier behind that.
__device__ inline void copy_to_shared(void* to, const void* from, bool is_there) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  const uint4 zero = {0, 0, 0, 0};
  *static_cast<uint4*>(to) = is_there ? *static_cast<const uint4*>(from) : zero;
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
               "l"(__cvta_generic_to_global(from)), "r"(is_there ? 16 : 0)
               : "memory");
#endif
}
__device__ inline void wait_for_copies() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

}  // namespace gpuplan::cuda
