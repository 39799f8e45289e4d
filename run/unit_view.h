// A unit's tensors as a call of its block finds them: pointers into the flat arrays that the program gathered, cast or
// keeps whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/kernels.h"
#include "planner/unit_layout.h"

namespace gpuplan {

/// Tensors of a gradient array that have been written since the array came to life; the first to write need not add.
using Written = std::vector<char>;  // by index of UnitLayout::trained

/// NF4 weights in device memory.
struct QuantisedWeight {
  const std::uint8_t* codes{};
  const std::uint8_t* absmax_codes{};  // null without double quantisation
  const float* absmax_scales{};
  float absmax_offset{};
};

struct UnitView {
  const UnitLayout* layout = nullptr;
  const std::byte* trained = nullptr;
  Dtype trained_dtype{};              // as used: stored, cast or gathered
  const std::byte* frozen = nullptr;  // the flat array, whole
  const std::byte* scales = nullptr;
  const float* offsets = nullptr;  // of double quantisation, by index of UnitLayout::frozen
  std::byte* gradient = nullptr;
  Dtype gradient_dtype{};
  Written* written = nullptr;

  /// Requires: a tensor of the unit that is not quantised.
  ConstNumbers weight(std::uint16_t tensor, WeightUse use) const;
  QuantisedWeight quantised(std::uint16_t tensor, const QuantSpec& quant) const;
  const PlacedTensor& placed(std::uint16_t tensor, WeightUse use) const;
  Numbers gradient_of(std::uint16_t tensor, WeightUse use) const;
  /// Says whether the tensor's gradient has been written; from now on it has.
  bool take_written(std::uint16_t tensor, WeightUse use) const;
};

}  // namespace gpuplan
