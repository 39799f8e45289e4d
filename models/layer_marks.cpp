#include "models/layer_marks.h"

#include <algorithm>
#include <utility>

#include "base/narrow.h"

namespace gpuplan {
namespace {

bool has_same_marks(const LayerKind& a, const LayerKind& b) {
  return a.is_before_trained == b.is_before_trained &&
         std::ranges::equal(a.tensors, b.tensors, [](const WeightTensor& x, const WeightTensor& y) {
           return x.keeps_dtype == y.keeps_dtype && x.is_frozen == y.is_frozen;
         });
}

}  // namespace

bool mark_layers(ModelWeights& weights, const std::function<void(LayerKind& kind, std::int64_t position)>& mark) {
  constexpr std::size_t kMostKinds = 255;
  const std::vector<LayerKind> unmarked = std::exchange(weights.kinds, {});
  std::vector<std::uint8_t> first;  // of each kind that is made: the one it is of
  for (std::size_t i = 0; i < weights.order.size(); ++i) {
    const std::uint8_t old = weights.order[i];
    LayerKind own = unmarked[old];
    mark(own, std::int64_t(i));
    std::size_t k = 0;
    while (k < weights.kinds.size() && (first[k] != old || !has_same_marks(weights.kinds[k], own))) ++k;
    if (k == weights.kinds.size()) {
      if (k == kMostKinds) return false;
      weights.kinds.push_back(std::move(own));
      first.push_back(old);
    }
    weights.order[i] = narrow<std::uint8_t>(k);
  }
  return true;
}

}  // namespace gpuplan
