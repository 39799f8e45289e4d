// NF4 weights to numbers, with one fp32 absmax per block or one of 8 bits.
#include "device/cuda/launch.h"
#include "device/cuda/threads.cuh"
#include "device/quantisation.h"

namespace gpuplan::cuda {
namespace {

/// Table in device memory: read at many addresses at once, which constant memory would take in turn.
__device__ const DynamicMap kSignedMap = dynamic_map(true);

struct Nf4Table {
  float level[16];
};

/// The absmax of a block of weights.
struct PlainAbsmax {
  const float* values;
  __device__ float operator()(std::int64_t block) const { return values[block]; }
};
struct QuantisedAbsmax {
  const std::uint8_t* codes;
  const float* scales;
  float offset;
  __device__ float operator()(std::int64_t block) const {
    return offset + kSignedMap.levels[codes[block]] * scales[block / kDynamicBlock];
  }
};

/// Eight weights are four bytes of codes, and never of two blocks.
template <class T, class Absmax>
__global__ void nf4_kernel(T* out, const std::uint8_t* codes, Absmax absmax, std::int64_t count, bool is_aligned,
                           Nf4Table levels) {
  static_assert(kNf4Block % kEight == 0);
  __shared__ float level[16];  // constant memory would serve one address at a time
  if (threadIdx.x == 0)
    for (int i = 0; i < 16; ++i) level[i] = levels.level[i];
  __syncthreads();
  const Mine mine = my_elements(count, is_aligned);
  if (mine.size == 0) return;
  const float scale = absmax(mine.at / kNf4Block);
  const std::uint8_t* const from = codes + mine.at / 2;
  std::uint8_t bytes[kEight / 2] = {};
  if (mine.is_whole) {
    const auto word = *reinterpret_cast<const std::uint32_t*>(from);
    memcpy(bytes, &word, sizeof word);
  } else {
    for (int i = 0; i < (mine.size + 1) / 2; ++i) bytes[i] = from[i];
  }
  float x[kEight];
#pragma unroll
  for (int i = 0; i < kEight; ++i) x[i] = scale * level[(bytes[i / 2] >> (i % 2 == 0 ? 4 : 0)) & 15];
  store(out + mine.at, x, mine.size, mine.is_whole);
}

template <class Absmax>
cudaError_t launch_with(const kernels::Nf4Dequantise& k, Absmax absmax, cudaStream_t stream) {
  if (k.count == 0) return cudaSuccess;
  Nf4Table table;
  memcpy(table.level, kNf4Levels, sizeof table.level);
  return with_type(k.out.dtype, [=]<class T>(T*) {
    T* const out = static_cast<T*>(k.out.data);
    // eight codes at a time
    const bool is_aligned = are_aligned(out) && reinterpret_cast<std::uintptr_t>(k.codes) % sizeof(std::uint32_t) == 0;
    nf4_kernel<<<num_blocks(k.count), kThreads, 0, stream>>>(out, k.codes, absmax, k.count, is_aligned, table);
    return cudaGetLastError();
  });
}

}  // namespace

cudaError_t launch(const kernels::Nf4Dequantise& k, LaunchStream& on) {
  if (!k.absmax_codes) return launch_with(k, PlainAbsmax{k.absmax_scales}, on.native);
  return launch_with(k, QuantisedAbsmax{k.absmax_codes, k.absmax_scales, k.absmax_offset}, on.native);
}

}  // namespace gpuplan::cuda
