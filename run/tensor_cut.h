// Parts of tensors that ranks share a layer by: rows, or columns, of the whole (models/rank_model.h says which).
#pragma once

#include <algorithm>
#include <cstdint>

#include "models/weights.h"
#include "planner/unit_layout.h"

namespace gpuplan {

/// The number of parts along rows and along columns; at most one of them is above 1.
struct TensorCut {
  std::int64_t rows = 1, cols = 1;
  bool is_whole() const { return rows == 1 && cols == 1; }
};

/// `own` is a rank's part of `whole`, or of its adapter.
TensorCut cut_of(const PlacedTensor& own, const WeightTensor& whole);

/// Calls use(own, whole, count) for every stretch of [begin, end) of the part at `place` that lies together in the
/// whole tensor: where it begins in both, in elements.
template <class Use>
void each_stretch(const PlacedTensor& own, const TensorCut& cut, std::int64_t place, std::int64_t begin,
                  std::int64_t end, Use use) {
  if (cut.cols == 1) {
    use(begin, (cut.rows > 1 ? place * own.elements() : 0) + begin, end - begin);
    return;
  }
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t row = at / own.cols, col = at % own.cols, count = std::min(own.cols - col, end - at);
    use(at, (row * cut.cols + place) * own.cols + col, count);
    at += count;
  }
}

}  // namespace gpuplan
