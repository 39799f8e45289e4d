#include "device/quantisation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/in_parts.h"

namespace gpuplan {
namespace {

constexpr DynamicMap kSignedMap = dynamic_map(true);

constexpr std::array<float, 15> middles_of_levels() {
  std::array<float, 15> middles{};
  for (std::size_t i = 0; i < middles.size(); ++i) middles[i] = (kNf4Levels[i] + kNf4Levels[i + 1]) * 0.5F;
  return middles;
}
constexpr std::array<float, 15> kMiddles = middles_of_levels();

float largest_magnitude(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

/// Factor that brings a block to [-1, 1]. A block of zeros keeps its zeros.
float to_unit(float absmax) { return absmax > 0 ? 1 / absmax : 0.0F; }

/// Number of middles that lie below: without a branch, so that a block is coded several weights at a time.
std::uint8_t nf4_code(float x) {
  int code = 0;
  for (const float middle : kMiddles) code += x > middle;
  return std::uint8_t(code);
}

std::uint8_t dynamic_code(float x) {
  return std::uint8_t(std::lower_bound(kSignedMap.middles, kSignedMap.middles + 255, x) - kSignedMap.middles);
}

/// Calls f(block, number of its first element).
template <class F>
void by_blocks(std::span<const float> values, std::int64_t length, F f) {
  for (std::size_t begin = 0; begin < values.size(); begin += std::size_t(length))
    f(values.subspan(begin, std::min(std::size_t(length), values.size() - begin)), begin);
}

}  // namespace

Nf4Weights nf4_quantise(std::span<const float> weights) {
  constexpr std::int64_t kWorthAThread = 1024 * kNf4Block;  // whole blocks: parts share no byte of codes
  const std::size_t num_blocks = (weights.size() + std::size_t(kNf4Block) - 1) / std::size_t(kNf4Block);
  Nf4Weights result{std::vector<std::uint8_t>((weights.size() + 1) / 2), std::vector<float>(num_blocks)};
  in_parts(std::int64_t(weights.size()), kWorthAThread, [&](std::int64_t part, std::int64_t end) {
    const auto own = weights.subspan(std::size_t(part), std::size_t(end - part));
    by_blocks(own, kNf4Block, [&](std::span<const float> block, std::size_t offset) {
      const std::size_t begin = std::size_t(part) + offset;
      float& absmax = result.absmax[begin / std::size_t(kNf4Block)];
      absmax = largest_magnitude(block);
      const float factor = to_unit(absmax);
      std::array<std::uint8_t, kNf4Block> codes{};
      for (std::size_t i = 0; i < block.size(); ++i) codes[i] = nf4_code(block[i] * factor);
      for (std::size_t i = 0; i < block.size(); i += 2)
        result.codes[(begin + i) / 2] = std::uint8_t(codes[i] << 4 | codes[i + 1]);
    });
  });
  return result;
}

Nf4Absmax nf4_quantise_absmax(std::span<const float> absmax) {
  Nf4Absmax result{std::vector<std::uint8_t>(absmax.size()), {}, 0};
  if (absmax.empty()) return result;
  result.offset = float(std::accumulate(absmax.begin(), absmax.end(), 0.0) / double(absmax.size()));
  std::vector<float> centred(absmax.begin(), absmax.end());
  for (float& value : centred) value -= result.offset;
  by_blocks(centred, kDynamicBlock, [&](std::span<const float> block, std::size_t begin) {
    result.scales.push_back(largest_magnitude(block));
    const float factor = to_unit(result.scales.back());
    for (std::size_t i = 0; i < block.size(); ++i) result.codes[begin + i] = dynamic_code(block[i] * factor);
  });
  return result;
}

}  // namespace gpuplan
