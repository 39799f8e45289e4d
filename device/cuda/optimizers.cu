// AdamW, with states as numbers or of 8 bits.
#include <bit>

#include "device/cuda/launch.h"
#include "device/cuda/threads.cuh"
#include "device/quantisation.h"

namespace gpuplan::cuda {
namespace {

/// The weight after the step, with m and v of after it.
__device__ float stepped(float weight, float gradient, float& m, float& v, const AdamWStep& step) {
  m = step.beta1 * m + (1.0F - step.beta1) * gradient;
  v = step.beta2 * v + (1.0F - step.beta2) * gradient * gradient;
  return weight * step.decay - step.rate * m / (sqrtf(v) * step.root + step.epsilon);
}

template <class W, class G, class S>
__global__ void adamw_kernel(W* weight, const G* gradient, S* m, S* v, std::int64_t count, bool is_aligned,
                             AdamWStep step, float gradient_scale) {
  const Mine mine = my_elements(count, is_aligned);
  float w[kEight] = {}, g[kEight] = {}, first[kEight] = {}, second[kEight] = {};
  load(w, weight + mine.at, mine.size, mine.is_whole);
  load(g, gradient + mine.at, mine.size, mine.is_whole);
  load(first, m + mine.at, mine.size, mine.is_whole);
  load(second, v + mine.at, mine.size, mine.is_whole);
#pragma unroll
  for (int i = 0; i < kEight; ++i) w[i] = stepped(w[i], g[i] * gradient_scale, first[i], second[i], step);
  store(weight + mine.at, w, mine.size, mine.is_whole);
  store(m + mine.at, first, mine.size, mine.is_whole);
  store(v + mine.at, second, mine.size, mine.is_whole);
}

template <class W, class G, class S>
cudaError_t launch_typed(W* weight, const G* gradient, S* m, S* v, std::int64_t count, const AdamWStep& step,
                         float gradient_scale, cudaStream_t stream) {
  const bool is_aligned = are_aligned(weight, gradient, m, v);
  adamw_kernel<<<num_blocks(count), kThreads, 0, stream>>>(weight, gradient, m, v, count, is_aligned, step,
                                                           gradient_scale);
  return cudaGetLastError();
}

// --- 8 bits: a warp has a block of 256 parameters -------------------------------------------------------------------

/// Table in device memory: read at many addresses at once, which constant memory would take in turn.
__device__ const DynamicMap kSignedMap = dynamic_map(true);
__device__ const DynamicMap kUnsignedMap = dynamic_map(false);

static_assert(kWarp * kEight == kDynamicBlock);

using Codes = std::uint8_t[kEight];

/// 8 codes at once where the address allows.
__device__ void load_codes(Codes& codes, const std::uint8_t* from, int size, bool is_whole) {
  if (is_whole) {
    const auto vector = *reinterpret_cast<const uint2*>(from);
    memcpy(codes, &vector, sizeof vector);
    return;
  }
#pragma unroll
  for (int i = 0; i < kEight; ++i)
    if (i < size) codes[i] = from[i];
}
__device__ void store_codes(std::uint8_t* to, const Codes& codes, int size, bool is_whole) {
  if (is_whole) {
    uint2 vector;
    memcpy(&vector, codes, sizeof vector);
    *reinterpret_cast<uint2*>(to) = vector;
    return;
  }
#pragma unroll
  for (int i = 0; i < kEight; ++i)
    if (i < size) to[i] = codes[i];
}

/// The levels of a decade lie on a line: magnitude x from begins[d] on has about the code of 0 plus slope[d] x +
/// offset[d], whose whole part steps where a part of the decade begins (device/quantisation.h). Decade d, of [10^(d -
/// 7), 10^(d - 6)), has first_parts 2^d parts.
struct CodeLines {
  static constexpr int kDecades = 7;
  float begins[kDecades], slope[kDecades], offset[kDecades];
};
constexpr CodeLines code_lines(int first_parts) {
  CodeLines lines{};
  double begin = 1e-7;
  for (int d = 0, parts = first_parts; d < CodeLines::kDecades; ++d, parts *= 2, begin *= 10) {
    const double slope = parts / (9 * begin);
    lines.begins[d] = float(begin);
    lines.slope[d] = float(slope);
    lines.offset[d] = float(1 + parts - first_parts - slope * begin);
  }
  return lines;
}

/// The code of x in [-1, 1] or the one next to it. `zero` is that of 0. A NaN is as 1.
template <int zero, int first_parts>
__device__ int code_near(float x) {
  constexpr CodeLines kLines = code_lines(first_parts);
  const float magnitude = fminf(fabsf(x), 0.999F);  // inside the last part of 128 at most, where 1 would be behind it
  float slope = kLines.slope[0], offset = kLines.offset[0];
#pragma unroll
  for (int d = 1; d < CodeLines::kDecades; ++d) {
    const bool is_above = magnitude >= kLines.begins[d];
    slope = is_above ? kLines.slope[d] : slope;
    offset = is_above ? kLines.offset[d] : offset;
  }
  const int steps = int(slope * magnitude + offset);
  return zero > 0 && x < 0 ? zero - steps : zero + steps;  // an unsigned map has no other side
}

/// The largest magnitude of the warp's numbers; a NaN is larger than all. Magnitudes are ordered as their bits are.
__device__ float warp_absmax(const float (&x)[kEight]) {
  std::uint32_t largest = 0;
  const auto take = [&](float value) {
    const auto bits = std::bit_cast<std::uint32_t>(fabsf(value));
    largest = bits > largest ? bits : largest;
  };
#pragma unroll
  for (int i = 0; i < kEight; ++i) take(x[i]);
  for (int lane = kWarp / 2; lane > 0; lane /= 2) take(__shfl_xor_sync(kAll, std::bit_cast<float>(largest), lane));
  return std::bit_cast<float>(largest);
}

/// One state of a block: `map` is in shared memory.
template <int zero, int first_parts>
struct Quantised {
  std::uint8_t* codes;
  float* absmax;
  const DynamicMap* map;

  __device__ void load(float (&x)[kEight], const Mine& mine) const {
    Codes some = {};
    load_codes(some, codes + mine.at, mine.size, mine.is_whole);
    const float scale = absmax[mine.at / kDynamicBlock];
#pragma unroll
    for (int i = 0; i < kEight; ++i) x[i] = map->levels[some[i]] * scale;
  }

  /// Warp-wide. Lanes past the end hold x = 0.
  __device__ void store(const float (&x)[kEight], const Mine& mine) const {
    const float largest = warp_absmax(x), factor = largest > 0 ? 1.0F / largest : 0.0F;
    Codes some;
#pragma unroll
    for (int i = 0; i < kEight; ++i) {
      const float scaled = x[i] * factor;
      some[i] = std::uint8_t(nearest_code(map->middles, code_near<zero, first_parts>(scaled), scaled));
    }
    store_codes(codes + mine.at, some, mine.size, mine.is_whole);
    __syncwarp();  // the old absmax has been read by all lanes
    if (threadIdx.x % kWarp == 0) absmax[mine.at / kDynamicBlock] = largest;
  }
};

template <class W, class G>
__global__ void adamw8_kernel(W* weight, const G* gradient, std::uint8_t* m, std::uint8_t* v, float* m_absmax,
                              float* v_absmax, std::int64_t count, bool is_aligned, AdamWStep step,
                              float gradient_scale) {
  __shared__ DynamicMap signed_map, unsigned_map;
  for (int i = int(threadIdx.x); i < 256; i += kThreads) {
    signed_map.levels[i] = kSignedMap.levels[i], signed_map.middles[i] = kSignedMap.middles[i];
    unsigned_map.levels[i] = kUnsignedMap.levels[i], unsigned_map.middles[i] = kUnsignedMap.middles[i];
  }
  __syncthreads();
  const Mine mine = my_elements(count, is_aligned);
  if (mine.at / kDynamicBlock * kDynamicBlock >= count) return;  // the whole warp
  const Quantised<127, 1> first_state{m, m_absmax, &signed_map};
  const Quantised<0, 2> second_state{v, v_absmax, &unsigned_map};
  float w[kEight] = {}, g[kEight] = {}, first[kEight], second[kEight];
  load(w, weight + mine.at, mine.size, mine.is_whole);
  load(g, gradient + mine.at, mine.size, mine.is_whole);
  first_state.load(first, mine);
  second_state.load(second, mine);
#pragma unroll
  for (int i = 0; i < kEight; ++i) {
    w[i] = stepped(w[i], g[i] * gradient_scale, first[i], second[i], step);
    if (i >= mine.size) first[i] = second[i] = 0;
  }
  store(weight + mine.at, w, mine.size, mine.is_whole);
  first_state.store(first, mine);
  second_state.store(second, mine);
}

}  // namespace

cudaError_t launch(const kernels::AdamWUpdate& k, LaunchStream& on) {
  if (k.m.dtype != k.v.dtype) return cudaErrorInvalidValue;
  if (k.count == 0) return cudaSuccess;
  const auto launch_all = [&]<class W, class G>(W* weight, const G* gradient) {
    const auto with_states = [&]<class S>(S* m) {
      return launch_typed(weight, gradient, m, static_cast<S*>(k.v.data), k.count, k.step, k.gradient_scale, on.native);
    };
    if (k.m.dtype == Dtype::F32) return with_states(static_cast<float*>(k.m.data));
    return k.m.dtype == k.weight.dtype ? with_states(static_cast<W*>(k.m.data)) : cudaErrorInvalidValue;
  };
  if (k.gradient.dtype == Dtype::F16 && k.weight.dtype == Dtype::F32)
    return launch_all(static_cast<float*>(k.weight.data), static_cast<const F16*>(k.gradient.data));
  return typed(launch_all, k.weight, k.gradient);
}

cudaError_t launch(const kernels::AdamW8Update& k, LaunchStream& on) {
  if (k.count == 0) return cudaSuccess;
  const auto is_code_aligned = [](const std::uint8_t* codes) {
    return reinterpret_cast<std::uintptr_t>(codes) % sizeof(uint2) == 0;
  };
  return typed(
      [=, stream = on.native]<class W, class G>(W* weight, const G* gradient) {
        const bool is_aligned = are_aligned(weight, gradient) && is_code_aligned(k.m) && is_code_aligned(k.v);
        adamw8_kernel<<<num_blocks(k.count), kThreads, 0, stream>>>(weight, gradient, k.m, k.v, k.m_absmax, k.v_absmax,
                                                                    k.count, is_aligned, k.step, k.gradient_scale);
        return cudaGetLastError();
      },
      k.weight, k.gradient);
}

}  // namespace gpuplan::cuda
