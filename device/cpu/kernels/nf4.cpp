// NF4 weights to numbers: a table of the 256 pairs that a byte can be, 2 KiB, stays in the first-level cache.
#include "device/cpu/kernels/numbers.h"
#include "device/quantisation.h"

namespace gpuplan::GPUPLAN_CPU_VARIANT {
namespace {

struct Pairs {
  float values[256][2];
};

constexpr Pairs make_pairs() {
  Pairs pairs{};
  for (int byte = 0; byte < 256; ++byte) {
    pairs.values[byte][0] = kNf4Levels[byte >> 4];
    pairs.values[byte][1] = kNf4Levels[byte & 15];
  }
  return pairs;
}
constexpr Pairs kPairs = make_pairs();
constexpr DynamicMap kSignedMap = dynamic_map(true);

template <class T>
GPUPLAN_INLINE void dequantise_block(T* out, const std::uint8_t* codes, float absmax, std::int64_t count) {
  float levels[kNf4Block];
  for (std::int64_t i = 0; i < (count + 1) / 2; ++i) {
    levels[2 * i] = kPairs.values[codes[i]][0];
    levels[2 * i + 1] = kPairs.values[codes[i]][1];
  }
  for (std::int64_t i = 0; i < count; ++i) store(out[i], levels[i] * absmax);
}

/// absmax(b) is that of block b.
template <class T, class F>
GPUPLAN_INLINE void dequantise(T* values, const std::uint8_t* codes, std::int64_t count, F absmax) {
  const std::int64_t blocks = ceil_div(count, kNf4Block);
#pragma omp parallel for schedule(static) if (count > kAlone)
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t begin = b * kNf4Block, left = count - begin;
    if (left >= kNf4Block)  // the usual case, with a length the compiler knows
      dequantise_block(values + begin, codes + begin / 2, absmax(b), kNf4Block);
    else
      dequantise_block(values + begin, codes + begin / 2, absmax(b), left);
  }
}

}  // namespace

void run(const kernels::Nf4Dequantise& k) {
  const std::uint8_t* const absmax_codes = k.absmax_codes;
  const float* const absmax_scales = k.absmax_scales;
  const float absmax_offset = k.absmax_offset;
  with_type(k.out.dtype, [=](auto type) {
    auto* const values = static_cast<decltype(type)*>(k.out.data);
    if (!absmax_codes) return dequantise(values, k.codes, k.count, [=](std::int64_t b) { return absmax_scales[b]; });
    dequantise(values, k.codes, k.count, [=](std::int64_t b) {
      return absmax_offset + kSignedMap.levels[absmax_codes[b]] * absmax_scales[b / kDynamicBlock];
    });
  });
}

}  // namespace gpuplan::GPUPLAN_CPU_VARIANT
