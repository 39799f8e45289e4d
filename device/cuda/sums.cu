// Sums down columns and over everything, in two stages: parts side by side, then their sums in order. What is a part
// depends on the shape alone, so the same input gives the same bits on every GPU.
#include "device/cuda/launch.h"
#include "device/cuda/threads.cuh"

namespace gpuplan::cuda {
namespace {

std::int64_t ceil_of(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// --- down columns ----------------------------------------------------------------------------------------------------

constexpr int kColumnsPerBlock = kWarp * kEight;

/// dy alone.
template <class T>
struct PlainTerms {
  const T* dy;
  bool is_aligned;
  __device__ void load(float (&terms)[kEight], std::int64_t, std::int64_t at, int size) const {
    cuda::load(terms, dy + at, size, is_aligned && size == kEight);
  }
};

/// dy x factors[row].
template <class T>
struct NormTerms {
  const T* dy;
  const T* x;
  const float* factors;
  bool is_aligned;
  __device__ void load(float (&terms)[kEight], std::int64_t row, std::int64_t at, int size) const {
    float from[kEight] = {};
    cuda::load(terms, dy + at, size, is_aligned && size == kEight);
    cuda::load(from, x + at, size, is_aligned && size == kEight);
    const float factor = factors[row];
#pragma unroll
    for (int i = 0; i < kEight; ++i) terms[i] *= from[i] * factor;
  }
};

/// A block has 256 columns of a part's rows, a warp every eighth of the rows.
template <class Terms>
__global__ void __launch_bounds__(kRowThreads) column_parts_kernel(float* parts, Terms terms, std::int64_t rows,
                                                                   std::int64_t width, int groups, int rows_per_part) {
  __shared__ float sums[kNumWarps][kColumnsPerBlock];
  const int group = int(blockIdx.x) % groups, part = int(blockIdx.x) / groups;
  const int warp = int(threadIdx.x) / kWarp, lane = int(threadIdx.x) % kWarp;
  const std::int64_t first = std::int64_t(group) * kColumnsPerBlock, column = first + lane * kEight,
                     begin = std::int64_t(part) * rows_per_part;
  const std::int64_t end = begin + rows_per_part < rows ? begin + rows_per_part : rows;
  const int size = column < width ? size_at(column, width) : 0;
  float sum[kEight] = {};
#pragma unroll 4
  for (std::int64_t row = begin + warp; row < end; row += kNumWarps) {
    float some[kEight] = {};
    terms.load(some, row, row * width + column, size);
#pragma unroll
    for (int i = 0; i < kEight; ++i) sum[i] += some[i];
  }
#pragma unroll
  for (int i = 0; i < kEight; ++i) sums[warp][lane * kEight + i] = sum[i];
  __syncthreads();
  static_assert(kColumnsPerBlock == kRowThreads);
  if (first + threadIdx.x >= width) return;
  float all = 0;
  for (int w = 0; w < kNumWarps; ++w) all += sums[w][threadIdx.x];
  parts[part * width + first + threadIdx.x] = all;
}

/// A thread has a column.
template <class G>
__global__ void add_parts_kernel(G* gradient, const float* parts, std::int64_t num_parts, std::int64_t width) {
  const std::int64_t column = std::int64_t(blockIdx.x) * kRowThreads + threadIdx.x;
  if (column >= width) return;
  float sum = 0;
#pragma unroll 8
  for (std::int64_t part = 0; part < num_parts; ++part) sum += parts[part * width + column];
  gradient[column] = rounded<G>(to_float(gradient[column]) + sum);
}

/// `parts` has room for `room` floats, of which each part takes `width`.
template <class Terms>
cudaError_t launch_column_sums(Numbers gradient, Terms terms, std::int64_t rows, std::int64_t width, float* parts,
                               std::int64_t room, cudaStream_t stream) {
  constexpr std::int64_t kLeastRows = 32, kBlocks = 512;  // enough for a GPU
  if (room < width) return cudaErrorInvalidValue;
  const std::int64_t groups = ceil_of(width, kColumnsPerBlock),
                     parts_wanted = groups < kBlocks / 64 ? kBlocks / groups : 64;
  const std::int64_t max_parts = room / width < parts_wanted ? room / width : parts_wanted;
  const std::int64_t shared_rows = ceil_of(rows, max_parts),
                     rows_per_part = shared_rows < kLeastRows ? kLeastRows : shared_rows;
  const std::int64_t num_parts = ceil_of(rows, rows_per_part);
  column_parts_kernel<<<unsigned(num_parts * groups), kRowThreads, 0, stream>>>(parts, terms, rows, width, int(groups),
                                                                                int(rows_per_part));
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess) return status;
  return typed(
      [=](auto* to) {
        add_parts_kernel<<<unsigned(ceil_of(width, kRowThreads)), kRowThreads, 0, stream>>>(to, parts, num_parts,
                                                                                            width);
        return cudaGetLastError();
      },
      gradient);
}

// --- over everything -------------------------------------------------------------------------------------------------

/// Sums over all threads of the block; the first one gets it.
__device__ double block_total(double x) {
  __shared__ double sums[kThreads];
  sums[threadIdx.x] = x;
  __syncthreads();
  double total = 0;
  if (threadIdx.x < kWarp) {
    for (int i = int(threadIdx.x); i < kThreads; i += kWarp) total += sums[i];
    sums[threadIdx.x] = total;
  }
  __syncthreads();
  total = 0;
  if (threadIdx.x == 0)
    for (int i = 0; i < kWarp; ++i) total += sums[i];
  return total;
}

struct Itself {
  __device__ static float of(float x) { return x; }
};
struct Square {
  __device__ static float of(float x) { return x * x; }
};

/// Block b gives parts[b]. Eight terms at a time are summed in fp32, by pairs, and then in doubles, which many GPUs are
/// slow at.
template <class Term, class T>
__global__ void __launch_bounds__(kThreads)
    total_parts_kernel(double* parts, const T* x, std::int64_t count, int num_parts, bool is_aligned) {
  double sum = 0;
  for (std::int64_t at = (std::int64_t(blockIdx.x) * kThreads + threadIdx.x) * kEight; at < count;
       at += std::int64_t(num_parts) * kThreads * kEight) {
    const int size = size_at(at, count);
    float some[kEight] = {};
    load(some, x + at, size, is_aligned && size == kEight);
#pragma unroll
    for (int i = 0; i < kEight; ++i) some[i] = Term::of(some[i]);
    sum += double(((some[0] + some[1]) + (some[2] + some[3])) + ((some[4] + some[5]) + (some[6] + some[7])));
  }
  sum = block_total(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

__global__ void add_total_kernel(double* to, const double* parts, int num_parts) {
  double sum = 0;
  for (int i = int(threadIdx.x); i < num_parts; i += kThreads) sum += parts[i];
  sum = block_total(sum);
  if (threadIdx.x == 0) *to += sum;
}

template <class Term, class T>
cudaError_t launch_total(double* sum, const T* x, std::int64_t count, float* scratch, cudaStream_t stream) {
  constexpr unsigned kMaxParts = 1024;
  auto* const parts = reinterpret_cast<double*>(scratch);
  const unsigned num_parts = num_blocks(count) < kMaxParts ? num_blocks(count) : kMaxParts;
  total_parts_kernel<Term><<<num_parts, kThreads, 0, stream>>>(parts, x, count, int(num_parts), are_aligned(x));
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess) return status;
  add_total_kernel<<<1, kThreads, 0, stream>>>(sum, parts, int(num_parts));
  return cudaGetLastError();
}

}  // namespace

/// `width` is at most kScratchFloats.
cudaError_t launch(const kernels::BiasBackward& k, LaunchStream& on) {
  if (k.rows == 0 || k.width == 0) return cudaSuccess;
  return typed(
      [&]<class T>(const T* dy) {
        return launch_column_sums(k.gradient, PlainTerms<T>{dy, are_aligned(dy) && k.width % kEight == 0}, k.rows,
                                  k.width, on.scratch(), kScratchFloats, on.native);
      },
      k.dy);
}

cudaError_t launch_norm_weight_backward(const kernels::RmsNormBackward& k, float* scratch, cudaStream_t stream) {
  return typed(
      [&]<class T>(const T* dy) {
        const T* const x = static_cast<const T*>(k.x.data);
        const NormTerms<T> terms{dy, x, scratch, are_aligned(dy, x) && k.hidden % kEight == 0};
        return launch_column_sums(k.weight_gradient, terms, k.rows, k.hidden, scratch + k.rows, kScratchFloats - k.rows,
                                  stream);
      },
      k.dy);
}

cudaError_t launch(const kernels::AddSquares& k, LaunchStream& on) {
  if (k.count == 0) return cudaSuccess;
  return typed([&](auto* x) { return launch_total<Square>(k.sum, x, k.count, on.scratch(), on.native); }, k.x);
}

cudaError_t launch(const kernels::AddSum& k, LaunchStream& on) {
  if (k.count == 0) return cudaSuccess;
  return launch_total<Itself>(k.sum, k.x, k.count, on.scratch(), on.native);
}

}  // namespace gpuplan::cuda
