// The two products that attention is made of, as one warp does them. 16-bit on tensor cores, fp32 on the plain ones, with the sums
// spread over the lanes alike, so that kernels do not know which.
#pragma once

#include "device/cuda/attention_tiles.cuh"

namespace gpuplan::cuda {

/// 16 x 8 sums: lane l has columns 2 (l % 4) and 2 (l % 4) + 1 of row l / 4, then of row l / 4 + 8.
struct Sums {
  float x[4] = {};
};

/// Where the lane's sums are: rows row() and row() + 8; of the eight columns column() and the next.
struct Lane {
  int id = int(threadIdx.x) % 32;
  __device__ int row() const { return id / 4; }
  __device__ int column() const { return id % 4 * 2; }
};

/// Where ldmatrix reads the four quarters of a 16 x 16 block, in elements from its beginning. As they follow each other: down, then right.
template <int kRow>
__device__ int down_right(int lane) {
  return lane % 16 * kRow + lane / 16 * 8;
}
/// Right, then down.
template <int kRow>
__device__ int right_down(int lane) {
  return (lane / 16 * 8 + lane % 8) * kRow + lane / 8 % 2 * 8;
}

/// A warp's 16 rows, the left side of products: fragments in registers, or rows in shared memory.
template <class T, int kHead, bool kKeepsFragments = Tiling<T, kHead>::kKeepsFragments>
struct KeptRows {
  const T* rows;
  __device__ explicit KeptRows(const T* from) : rows(from) {}
  __device__ void read(std::uint32_t (&fragment)[4], int number) const {
    load_matrices(fragment, rows + number * 16 + down_right<Tiling<T, kHead>::kRow>(Lane{}.id));
  }
};
template <class T, int kHead>
struct KeptRows<T, kHead, true> {
  std::uint32_t fragments[kHead / 16][4];
  __device__ explicit KeptRows(const T* from) {
#pragma unroll
    for (int f = 0; f < kHead / 16; ++f) load_matrices(fragments[f], from + f * 16 + down_right<Tiling<T, kHead>::kRow>(Lane{}.id));
  }
  __device__ void read(std::uint32_t (&fragment)[4], int number) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) fragment[i] = fragments[number][i];
  }
};

__device__ inline float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }

/// left x right^T. right: kColumns / 8 times eight rows in shared memory.
template <class T, int kHead, int kNum>
__device__ void multiply(Sums (&product)[kNum], const KeptRows<T, kHead>& left, const T* right) {
  constexpr int kRow = Tiling<T, kHead>::kRow;
  const Lane lane;
#pragma unroll
  for (Sums& sums : product) sums = {};
  if constexpr (std::is_same_v<T, float>) {
#pragma unroll 4
    for (int d = 0; d < kHead; d += 4) {
      const auto four = [d](const float* row) { return *reinterpret_cast<const float4*>(row + d); };
      const float4 upper = four(left.rows + lane.row() * kRow), lower = four(left.rows + (lane.row() + 8) * kRow);
#pragma unroll
      for (int i = 0; i < kNum * 2; ++i) {
        const float4 other = four(right + (i / 2 * 8 + lane.column() + i % 2) * kRow);
        product[i / 2].x[i % 2] += dot(upper, other);
        product[i / 2].x[2 + i % 2] += dot(lower, other);
      }
    }
  } else {
    right += right_down<kRow>(lane.id);
#pragma unroll
    for (int f = 0; f < kHead / 16; ++f) {
      std::uint32_t a[4];
      left.read(a, f);
#pragma unroll
      for (int n = 0; n < kNum / 2; ++n) {
        std::uint32_t b[4];
        load_matrices(b, right + n * 16 * kRow + f * 16);
        multiply_add<T>(product[2 * n].x, a, b[0], b[1]);
        multiply_add<T>(product[2 * n + 1].x, a, b[2], b[3]);
      }
    }
  }
}

/// Two neighbouring numbers as one register of a fragment, rounded.
template <class T>
__device__ std::uint32_t packed_pair(float low, float high) {
  const T both[2] = {rounded<T>(low), rounded<T>(high)};
  std::uint32_t bits;
  memcpy(&bits, both, sizeof bits);
  return bits;
}

/// sums += weights x right. weights: 16 x 8 kNumWeights, rounded to T on the way; right: as many rows in shared memory, kRow apart, of
/// which the first 8 kNum columns count.
template <class T, int kRow, int kNum, int kNumWeights>
__device__ void add_weighted(Sums (&sums)[kNum], const Sums (&weights)[kNumWeights], const T* right) {
  const Lane lane;
  if constexpr (std::is_same_v<T, float>) {
#pragma unroll
    for (int r = 0; r < kNumWeights * 8; ++r) {
      const int owner = lane.id / 4 * 4 + r % 8 / 2;
      const float upper = __shfl_sync(0xffffffffU, weights[r / 8].x[r % 2], owner);
      const float lower = __shfl_sync(0xffffffffU, weights[r / 8].x[2 + r % 2], owner);
#pragma unroll
      for (int c = 0; c < kNum; ++c) {
        const float2 two = *reinterpret_cast<const float2*>(right + r * kRow + c * 8 + lane.column());
        sums[c].x[0] += upper * two.x;
        sums[c].x[1] += upper * two.y;
        sums[c].x[2] += lower * two.x;
        sums[c].x[3] += lower * two.y;
      }
    }
  } else {
    right += down_right<kRow>(lane.id);
#pragma unroll
    for (int r = 0; r < kNumWeights / 2; ++r) {
      const Sums &first = weights[2 * r], &second = weights[2 * r + 1];
      const std::uint32_t a[4] = {packed_pair<T>(first.x[0], first.x[1]), packed_pair<T>(first.x[2], first.x[3]),
                                  packed_pair<T>(second.x[0], second.x[1]), packed_pair<T>(second.x[2], second.x[3])};
#pragma unroll
      for (int c = 0; c < kNum / 2; ++c) {
        std::uint32_t b[4];
        load_transposed_matrices(b, right + r * 16 * kRow + c * 16);
        multiply_add<T>(sums[2 * c].x, a, b[0], b[1]);
        multiply_add<T>(sums[2 * c + 1].x, a, b[2], b[3]);
      }
    }
  }
}

/// Writes sums x scale (of the upper row, of the lower) to rows of a head, `stride` apart: as far as there are rows and columns.
template <class T, int kNum>
__device__ void write_rows(T* to, std::int64_t stride, const Sums (&sums)[kNum], const float (&scale)[2], int num_rows, int num_columns,
                           bool is_aligned) {
  const Lane lane;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane.row() + 8 * half;
    if (row >= num_rows) continue;
#pragma unroll
    for (int c = 0; c < kNum; ++c) {
      const int column = c * 8 + lane.column();
      T two[2] = {rounded<T>(sums[c].x[2 * half] * scale[half]), rounded<T>(sums[c].x[2 * half + 1] * scale[half])};
      T* const at = to + row * stride + column;
      if (is_aligned && column < num_columns) {
        using Pair = std::conditional_t<sizeof(T) == 2, std::uint32_t, uint2>;
        Pair pair;
        memcpy(&pair, two, sizeof pair);
        *reinterpret_cast<Pair*>(at) = pair;
        continue;
      }
      if (column < num_columns) at[0] = two[0];
      if (column + 1 < num_columns) at[1] = two[1];
    }
  }
}

}  // namespace gpuplan::cuda
