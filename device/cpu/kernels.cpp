#include "device/cpu/kernels.h"

#include <algorithm>
#include <cstring>

#include "device/cpu/variant.h"

namespace gpuplan {

namespace baseline { extern const CpuKernels kKernels; }
namespace avx2 { extern const CpuKernels kKernels; }
namespace avx512 { extern const CpuKernels kKernels; }

const CpuKernels& cpu_kernels() {
  static const CpuKernels& kernels = GPUPLAN_PICK_VARIANT(kKernels);
  return kernels;
}

void parallel_copy(void* to, const void* from, std::int64_t size) {
  constexpr std::int64_t kPiece = 256 << 10;  // a piece costs about 20 us, a team 2 us
  if (size <= kPiece) {
    std::memcpy(to, from, std::size_t(size));
    return;
  }
#pragma omp parallel for schedule(static)
  for (std::int64_t begin = 0; begin < size; begin += kPiece)
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                std::size_t(std::min(kPiece, size - begin)));
}

}  // namespace gpuplan
