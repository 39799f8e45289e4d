// Lists of a model's tensors, and marks on those of single layers: what a quantised checkpoint leaves in 16 bit, what a
// recipe freezes.
#pragma once

#include <functional>

#include "models/weights.h"

namespace gpuplan {

/// Calls mark(kind, position) for every layer, first to last. Layers of a kind whose marks differ become kinds of their
/// own. Returns whether there are as few kinds as fit.
bool mark_layers(ModelWeights& weights, const std::function<void(LayerKind& kind, std::int64_t position)>& mark);

/// Calls visit(tensors) for the ends and for every kind of layer.
template <class Visit>
void each_list(const ModelWeights& weights, Visit visit) {
  visit(weights.before);
  for (const LayerKind& kind : weights.kinds) visit(kind.tensors);
  visit(weights.after);
}

}  // namespace gpuplan
