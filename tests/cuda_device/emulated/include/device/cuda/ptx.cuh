// Stands in for device/cuda/ptx.cuh: the same functions, done number by number as the PTX ISA says which lane has what.
#pragma once

#include <cstdlib>
#include <type_traits>

#include "cuda_device/emulated/emulator.h"
#include "device/cuda/number.cuh"

namespace gpuplan::cuda {

template <class T>
constexpr bool kHasTensorCores = !std::is_same_v<T, float>;

inline unsigned lane_id() { return threadIdx.x % 32; }

/// All lanes' `mine`, by lane.
template <class Value>
const Value* of_all_lanes(const Value& mine) {
  Value* const all = static_cast<Value*>(emulation::next_exchange(32 * sizeof(Value)));
  all[lane_id()] = mine;
  __syncwarp();
  return all;
}

struct MatrixRow {
  const std::uint16_t* numbers;
};

inline MatrixRow checked_row(const void* row) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) std::abort();
  return {static_cast<const std::uint16_t*>(row)};
}
inline std::uint32_t packed(std::uint16_t low, std::uint16_t high) { return low | std::uint32_t(high) << 16; }

inline void load_matrices(std::uint32_t (&to)[4], const void* row) {
  const MatrixRow* const rows = of_all_lanes(checked_row(row));
  const unsigned of = lane_id() / 4, at = lane_id() % 4 * 2;
  for (unsigned m = 0; m < 4; ++m) to[m] = packed(rows[8 * m + of].numbers[at], rows[8 * m + of].numbers[at + 1]);
}
inline void load_transposed_matrices(std::uint32_t (&to)[4], const void* row) {
  const MatrixRow* const rows = of_all_lanes(checked_row(row));
  const unsigned column = lane_id() / 4, at = lane_id() % 4 * 2;
  for (unsigned m = 0; m < 4; ++m)
    to[m] = packed(rows[8 * m + at].numbers[column], rows[8 * m + at + 1].numbers[column]);
}

struct Operands {
  std::uint32_t a[4], b[2];
};
/// Number `half` of a register.
template <class T>
float number_in(std::uint32_t pair, unsigned half) {
  const auto bits = std::uint16_t(pair >> 16 * half);
  T number;
  std::memcpy(&number, &bits, sizeof number);
  return to_float(number);
}

template <class T>
void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t upper_b, std::uint32_t lower_b) {
  const Operands* const all = of_all_lanes(Operands{{a[0], a[1], a[2], a[3]}, {upper_b, lower_b}});
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane_id() / 4 + 8 * (i / 2), column = lane_id() % 4 * 2 + i % 2;
    for (unsigned k = 0; k < 16; ++k)
      d[i] += number_in<T>(all[row % 8 * 4 + k % 8 / 2].a[row / 8 + k / 8 * 2], k % 2) *
              number_in<T>(all[column * 4 + k % 8 / 2].b[k / 8], k % 2);
  }
}

inline float power_of_2(float x) { return std::exp2(x); }

/// Done as late as the hardware may: at the wait.
inline void copy_to_shared(void* to, const void* from, bool is_there) {
  if ((reinterpret_cast<std::uintptr_t>(to) | (is_there ? reinterpret_cast<std::uintptr_t>(from) : 0)) % 16 != 0)
    std::abort();
  emulation::copy_later(to, is_there ? from : nullptr, 16);
}
inline void wait_for_copies() { emulation::copy_now(); }

}  // namespace gpuplan::cuda
