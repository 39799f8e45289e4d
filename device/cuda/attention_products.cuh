// The two products that attention is made of, as one warp does them. 16-bit on tensor cores, fp32 on the plain ones,
// with the sums spread over the lanes alike, so that kernels do not know which.
#pragma once

#include "device/cuda/attention_tiles.cuh"

namespace gpuplan::cuda {

/// 16 x 8 sums: lane l has columns 2 (l % 4) and 2 (l % 4) + 1 of row l / 4, then of row l / 4 + 8.
struct Sums {
  float x[4] = {};
};

/// Place of the lane's sums: rows row() and row() + 8; of the eight columns column() and the next.
struct Lane {
  int id = int(threadIdx.x) % 32;
  __device__ int row() const { return id / 4; }
  __device__ int column() const { return id % 4 * 2; }
};

/// Offset at which ldmatrix reads the four quarters of a 16 x 16 block, in elements from its beginning. They follow
/// each other down, then right.
template <int kRow>
__device__ int down_right(int lane) {
  return lane % 16 * kRow + lane / 16 * 8;
}
/// Right, then down.
template <int kRow>
__device__ int right_down(int lane) {
  return (lane / 16 * 8 + lane % 8) * kRow + lane / 8 % 2 * 8;
}

/// A warp's rows, the left side of products: fragments in registers, or rows in shared memory.
template <class Tiles, bool kKeepsFragments = Tiles::kKeepsFragments>
struct KeptRows {
  const typename Tiles::Number* rows;
  __device__ explicit KeptRows(const typename Tiles::Number* from) : rows(from) {}
  /// Reads the warp's rows from 16 m and columns from 16 n.
  __device__ void read(std::uint32_t (&fragment)[4], int m, int n) const {
    load_matrices(fragment, rows + m * 16 * Tiles::kRow + n * 16 + down_right<Tiles::kRow>(Lane{}.id));
  }
};
template <class Tiles>
struct KeptRows<Tiles, true> {
  std::uint32_t fragments[Tiles::kFragments][Tiles::kHead / 16][4];
  __device__ explicit KeptRows(const typename Tiles::Number* from) {
    const KeptRows<Tiles, false> rows(from);
#pragma unroll
    for (int m = 0; m < Tiles::kFragments; ++m)
#pragma unroll
      for (int n = 0; n < Tiles::kHead / 16; ++n) rows.read(fragments[m][n], m, n);
  }
  __device__ void read(std::uint32_t (&fragment)[4], int m, int n) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) fragment[i] = fragments[m][n][i];
  }
};

__device__ inline float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }

/// left x right^T. right: 8 kNum rows in shared memory.
template <class Tiles, int kNum, class T>
__device__ void multiply(Sums (&product)[Tiles::kFragments][kNum], const KeptRows<Tiles>& left, const T* right) {
  constexpr int kRow = Tiles::kRow, kFragments = Tiles::kFragments;
  const Lane lane;
#pragma unroll
  for (int i = 0; i < kFragments * kNum; ++i) product[i / kNum][i % kNum] = {};
  if constexpr (std::is_same_v<T, float>) {
    static_assert(kFragments == 1);
#pragma unroll 4
    for (int d = 0; d < Tiles::kHead; d += 4) {
      const auto four = [d](const float* row) { return *reinterpret_cast<const float4*>(row + d); };
      const float4 upper = four(left.rows + lane.row() * kRow), lower = four(left.rows + (lane.row() + 8) * kRow);
#pragma unroll
      for (int i = 0; i < kNum * 2; ++i) {
        const float4 other = four(right + (i / 2 * 8 + lane.column() + i % 2) * kRow);
        product[0][i / 2].x[i % 2] += dot(upper, other);
        product[0][i / 2].x[2 + i % 2] += dot(lower, other);
      }
    }
  } else {
    right += right_down<kRow>(lane.id);
#pragma unroll
    for (int n = 0; n < Tiles::kHead / 16; ++n) {
      std::uint32_t a[kFragments][4];
#pragma unroll
      for (int m = 0; m < kFragments; ++m) left.read(a[m], m, n);
#pragma unroll
      for (int c = 0; c < kNum; c += 2) {
        std::uint32_t b[4];
        load_matrices(b, right + c * 8 * kRow + n * 16);
#pragma unroll
        for (int m = 0; m < kFragments; ++m) {
          multiply_add<T>(product[m][c].x, a[m], b[0], b[1]);
          multiply_add<T>(product[m][c + 1].x, a[m], b[2], b[3]);
        }
      }
    }
  }
}

/// Sets the columns outside [first, last] of row `half` (the lane's upper or lower) to `value`.
template <int kNum>
__device__ void hide(Sums (&sums)[kNum], int half, int first, int last, float value) {
  const int column = Lane{}.column();
#pragma unroll
  for (int i = 0; i < 2 * kNum; ++i) {
    const int at = column + i / 2 * 8 + i % 2;
    float& x = sums[i / 2].x[2 * half + i % 2];
    x = at < first || at > last ? value : x;
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

/// Sums as the left side of a product: columns 8 n to 8 n + 15 of them, rounded.
template <class T, int kNum>
__device__ void pack(std::uint32_t (&fragment)[4], const Sums (&sums)[kNum], int n) {
  fragment[0] = packed_pair<T>(sums[n].x[0], sums[n].x[1]);
  fragment[1] = packed_pair<T>(sums[n].x[2], sums[n].x[3]);
  fragment[2] = packed_pair<T>(sums[n + 1].x[0], sums[n + 1].x[1]);
  fragment[3] = packed_pair<T>(sums[n + 1].x[2], sums[n + 1].x[3]);
}

/// sums += weights x right. weights: 8 kNumWeights columns, rounded to T on the way; right: as many rows in shared
/// memory, of which the first 8 kNum columns count.
template <class Tiles, int kNum, int kNumWeights, class T>
__device__ void add_weighted(Sums (&sums)[Tiles::kFragments][kNum],
                             const Sums (&weights)[Tiles::kFragments][kNumWeights], const T* right) {
  constexpr int kRow = Tiles::kRow, kFragments = Tiles::kFragments;
  const Lane lane;
  if constexpr (std::is_same_v<T, float>) {
    static_assert(kFragments == 1);
#pragma unroll
    for (int r = 0; r < kNumWeights * 8; ++r) {
      const Sums& of_columns = weights[0][r / 8];
      const int owner = lane.id / 4 * 4 + r % 8 / 2;
      const float upper = __shfl_sync(0xffffffffU, of_columns.x[r % 2], owner);
      const float lower = __shfl_sync(0xffffffffU, of_columns.x[2 + r % 2], owner);
#pragma unroll
      for (int c = 0; c < kNum; ++c) {
        const float2 two = *reinterpret_cast<const float2*>(right + r * kRow + c * 8 + lane.column());
        float(&x)[4] = sums[0][c].x;
        x[0] += upper * two.x;
        x[1] += upper * two.y;
        x[2] += lower * two.x;
        x[3] += lower * two.y;
      }
    }
  } else {
    right += down_right<kRow>(lane.id);
#pragma unroll
    for (int r = 0; r < kNumWeights; r += 2) {
      std::uint32_t a[kFragments][4];
#pragma unroll
      for (int m = 0; m < kFragments; ++m) pack<T>(a[m], weights[m], r);
#pragma unroll
      for (int c = 0; c < kNum; c += 2) {
        std::uint32_t b[4];
        load_transposed_matrices(b, right + r * 8 * kRow + c * 8);
#pragma unroll
        for (int m = 0; m < kFragments; ++m) {
          multiply_add<T>(sums[m][c].x, a[m], b[0], b[1]);
          multiply_add<T>(sums[m][c + 1].x, a[m], b[2], b[3]);
        }
      }
    }
  }
}

/// Writes sums x scale (of the upper row, of the lower) to rows of a head, `stride` apart: as far as there are rows and
/// columns.
template <class T, int kNum>
__device__ void write_rows(T* to, std::int64_t stride, const Sums (&sums)[kNum], const float (&scale)[2], int num_rows,
                           int num_columns, bool is_aligned) {
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
