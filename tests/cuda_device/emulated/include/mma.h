// Stands in for CUDA's mma.h: 16 x 16 fragments spread over the lanes in an order that nobody would guess, as wmma leaves it open.
#pragma once

#include "cuda_device/emulated/emulator.h"
#include "device/cuda/number.cuh"

namespace nvcuda::wmma {

struct row_major {};
struct col_major {};
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
enum layout_t { mem_row_major, mem_col_major };

constexpr int kSide = 16, kCells = kSide * kSide, kPerLane = kCells / 32;

template <class Use, int m, int n, int k, class T, class Order = void>
struct fragment {
  static_assert(m == kSide && n == kSide && k == kSide);
  static constexpr int num_elements = kPerLane;
  T x[kPerLane];
};

/// Row-major number of the cell that is element `i` of this lane.
inline int cell_of(int i) { return (int(threadIdx.x % 32) * kPerLane + i) * 37 % kCells; }

template <class T>
long address(int cell, unsigned leading, bool is_row_major) {
  const long row = cell / kSide, column = cell % kSide;
  return is_row_major ? row * long(leading) + column : column * long(leading) + row;
}

inline void check_address(const void* pointer) {
  if (reinterpret_cast<std::uintptr_t>(pointer) % 32 != 0) std::abort();  // what real fragments need
}

template <class Use, class T, class Order>
void load_matrix_sync(fragment<Use, 16, 16, 16, T, Order>& to, const T* from, unsigned leading) {
  check_address(from);
  for (int i = 0; i < kPerLane; ++i) to.x[i] = from[address<T>(cell_of(i), leading, std::is_same_v<Order, row_major>)];
  __syncwarp();
}
inline void load_matrix_sync(fragment<accumulator, 16, 16, 16, float>& to, const float* from, unsigned leading, layout_t order) {
  check_address(from);
  for (int i = 0; i < kPerLane; ++i) to.x[i] = from[address<float>(cell_of(i), leading, order == mem_row_major)];
  __syncwarp();
}
inline void store_matrix_sync(float* to, const fragment<accumulator, 16, 16, 16, float>& from, unsigned leading, layout_t order) {
  check_address(to);
  for (int i = 0; i < kPerLane; ++i) to[address<float>(cell_of(i), leading, order == mem_row_major)] = from.x[i];
}
inline void fill_fragment(fragment<accumulator, 16, 16, 16, float>& to, float value) {
  for (float& x : to.x) x = value;
}

template <class T, class OrderA, class OrderB>
void mma_sync(fragment<accumulator, 16, 16, 16, float>& d, const fragment<matrix_a, 16, 16, 16, T, OrderA>& a,
              const fragment<matrix_b, 16, 16, 16, T, OrderB>& b, const fragment<accumulator, 16, 16, 16, float>& c) {
  float *const left = gpuplan::emulation::warp_exchange(), *const right = left + kCells;
  static_assert(2 * kCells <= 32 * gpuplan::emulation::kExchange);
  for (int i = 0; i < kPerLane; ++i) {
    left[cell_of(i)] = gpuplan::cuda::to_float(a.x[i]);
    right[cell_of(i)] = gpuplan::cuda::to_float(b.x[i]);
  }
  __syncwarp();
  for (int i = 0; i < kPerLane; ++i) {
    const int row = cell_of(i) / kSide, column = cell_of(i) % kSide;
    float sum = c.x[i];
    for (int l = 0; l < kSide; ++l) sum += left[row * kSide + l] * right[l * kSide + column];
    d.x[i] = sum;
  }
  __syncwarp();
}

}  // namespace nvcuda::wmma
