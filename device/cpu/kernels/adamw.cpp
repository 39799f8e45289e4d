// AdamW on weights and states of the types that they are kept in, and with states of 8 bits, a block of 256 parameters
// at a time.
#include <bit>
#include <cmath>

#include "device/cpu/kernels/numbers.h"
#include "device/quantisation.h"

namespace gpuplan::GPUPLAN_CPU_VARIANT {
namespace {

/// The weight of one parameter after the step; m and v are replaced by those after it.
GPUPLAN_INLINE float stepped(float weight, float gradient, float& m, float& v, const AdamWStep& step) {
  m = step.beta1 * m + (1.0F - step.beta1) * gradient;
  v = step.beta2 * v + (1.0F - step.beta2) * gradient * gradient;
  return weight * step.decay - step.rate * m / (sqrtf(v) * step.root + step.epsilon);
}

template <class W, class G, class S>
GPUPLAN_INLINE void step_all(W* weight, const G* gradient, S* m, S* v, std::int64_t count, const AdamWStep& settings,
                             float gradient_scale) {
  const AdamWStep step = settings;  // a copy that no store can change
#pragma omp parallel for simd schedule(static) if (count > kAlone)
  for (std::int64_t i = 0; i < count; ++i) {
    float mean = load(m[i]), square = load(v[i]);
    store(weight[i], stepped(load(weight[i]), load(gradient[i]) * gradient_scale, mean, square, step));
    store(m[i], mean);
    store(v[i], square);
  }
}

// --- states of 8 bits -----------------------------------------------------------------------------------------------

constexpr DynamicMap kSignedMap = dynamic_map(true), kUnsignedMap = dynamic_map(false);

/// The code of numbers in [-1, 1] by their first bits: sign, exponent down to 2^-23 and 7 bits of fraction. Levels are
/// further apart than two numbers that share these, so at most one middle lies between them.
struct CodeTable {
  static constexpr std::uint32_t kShift = 16, kFirst = 104U << 7,
                                 kBins = 23 * 128 + 1;  // 2^-23 to 1; what is smaller is as 2^-23
  std::uint8_t lowest[2][kBins];                        // of the numbers in a bin, without and with a sign

  GPUPLAN_INLINE std::uint8_t lowest_of(float x) const {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const std::int32_t bin = std::int32_t((bits & 0x7fffffffU) >> kShift) - std::int32_t(kFirst);
    const std::int32_t known = bin < 0                     ? 0
                               : bin < std::int32_t(kBins) ? bin
                                                           : std::int32_t(kBins) - 1;  // a NaN is the last
    return lowest[bits >> 31][known];
  }
};

constexpr CodeTable code_table(const DynamicMap& map) {
  CodeTable table{};
  int above = nearest_code(map.middles, 0, 0), below = above;
  for (std::uint32_t bin = 0; bin < CodeTable::kBins; ++bin) {
    const std::uint32_t first = (CodeTable::kFirst + bin) << CodeTable::kShift,
                        next = first + (1U << CodeTable::kShift);
    const float least = bin == 0 ? 0.0F : std::bit_cast<float>(first), most = std::bit_cast<float>(next - 1);
    above = nearest_code(map.middles, above, least);
    below = nearest_code(map.middles, below, -most);
    table.lowest[0][bin] = std::uint8_t(above);
    table.lowest[1][bin] = std::uint8_t(below);
    if (nearest_code(map.middles, above, most) > above + 1 || nearest_code(map.middles, below, -least) > below + 1)
      throw "two middles in a bin";
  }
  return table;
}

constexpr CodeTable kSignedCodes = code_table(kSignedMap), kUnsignedCodes = code_table(kUnsignedMap);

/// Element by element: gathers cost several times as much where processors are mended against Downfall
/// (CVE-2022-40982).
GPUPLAN_INLINE std::int64_t without_gather(std::int64_t i) {
  asm("" : "+r"(i));
  return i;
}

GPUPLAN_INLINE void decode(float* values, const std::uint8_t* codes, const DynamicMap& map, float absmax,
                           std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = map.levels[codes[without_gather(i)]] * absmax;
}

/// Returns the new absmax.
GPUPLAN_INLINE float encode(std::uint8_t* codes, const float* values, const DynamicMap& map, const CodeTable& table,
                            std::int64_t count) {
  std::uint32_t largest = 0;  // magnitudes are ordered as their bits are, and a NaN is the largest
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffffU;
    largest = bits > largest ? bits : largest;
  }
  const float absmax = std::bit_cast<float>(largest);
  const float factor = absmax > 0 ? 1.0F / absmax : 0.0F;
  for (std::int64_t i = 0; i < count; ++i) {
    const float x = values[without_gather(i)] * factor;
    const std::uint8_t lowest = table.lowest_of(x);
    codes[i] = std::uint8_t(lowest + (x > map.middles[lowest]));
  }
  return absmax;
}

/// One block, whose states are fp32 meanwhile.
template <class W, class G>
GPUPLAN_INLINE void step_block(W* weight, const G* gradient, const kernels::AdamW8Update& k, std::int64_t b,
                               std::int64_t count, const AdamWStep& step) {
  float m[kDynamicBlock], v[kDynamicBlock];
  const std::int64_t begin = b * kDynamicBlock;
  decode(m, k.m + begin, kSignedMap, k.m_absmax[b], count);
  decode(v, k.v + begin, kUnsignedMap, k.v_absmax[b], count);
  for (std::int64_t i = 0; i < count; ++i)
    store(weight[begin + i],
          stepped(load(weight[begin + i]), load(gradient[begin + i]) * k.gradient_scale, m[i], v[i], step));
  k.m_absmax[b] = encode(k.m + begin, m, kSignedMap, kSignedCodes, count);
  k.v_absmax[b] = encode(k.v + begin, v, kUnsignedMap, kUnsignedCodes, count);
}

}  // namespace

void run(const kernels::AdamWUpdate& k) {
  if (k.gradient.dtype == Dtype::F16)
    return step_all(as<float>(k.weight), as<F16>(k.gradient), as<float>(k.m), as<float>(k.v), k.count, k.step,
                    k.gradient_scale);
  typed([&]<class S>(auto* weight, auto* gradient,
                     S* m) { step_all(weight, gradient, m, as<S>(k.v), k.count, k.step, k.gradient_scale); },
        k.weight, k.gradient, k.m);
}

void run(const kernels::AdamW8Update& k) {
  const std::int64_t blocks = ceil_div(k.count, kDynamicBlock);
  typed(
      [=](auto* weight, auto* gradient) {
#pragma omp parallel for schedule(static) if (k.count > kAlone)
        for (std::int64_t b = 0; b < blocks; ++b) {
          const std::int64_t left = k.count - b * kDynamicBlock;
          step_block(weight, gradient, k, b, left < kDynamicBlock ? left : kDynamicBlock, k.step);
        }
      },
      k.weight, k.gradient);
}

}  // namespace gpuplan::GPUPLAN_CPU_VARIANT
