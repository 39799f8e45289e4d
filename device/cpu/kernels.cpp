#include "device/cpu/kernels.h"

#include <algorithm>
#include <cstring>

#include "device/cpu/variant.h"

namespace gpuplan {

namespace baseline {
extern const CpuKernels kKernels;
}
namespace avx2 {
extern const CpuKernels kKernels;
}
namespace avx512 {
extern const CpuKernels kKernels;
}

const CpuKernels& cpu_kernels() {
  static const CpuKernels& kernels = GPUPLAN_PICK_VARIANT(kKernels);
  return kernels;
}

namespace {

/// Calls f(begin, length) for pieces of `size` bytes, by all threads of the team when there are several.
template <class F>
void by_pieces(std::int64_t size, F f) {
  constexpr std::int64_t kPiece = 256 << 10;  // a piece costs about 20 us, a team 2 us
  if (size <= kPiece) return f(0, std::size_t(size));
#pragma omp parallel for schedule(static)
  for (std::int64_t begin = 0; begin < size; begin += kPiece) f(begin, std::size_t(std::min(kPiece, size - begin)));
}

}  // namespace

void parallel_copy(void* to, const void* from, std::int64_t size) {
  by_pieces(size, [=](std::int64_t begin, std::size_t length) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin, length);
  });
}

void parallel_zero(void* to, std::int64_t size) {
  by_pieces(size,
            [=](std::int64_t begin, std::size_t length) { std::memset(static_cast<char*>(to) + begin, 0, length); });
}

}  // namespace gpuplan
