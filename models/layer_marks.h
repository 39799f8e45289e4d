// Marks on the tensors of single layers: what a quantised checkpoint leaves in 16 bit, what a recipe freezes.
#pragma once

#include <functional>

#include "models/weights.h"

namespace gpuplan {

/// Calls mark(kind, position) for every layer, first to last. Layers of a kind whose marks differ become kinds of their
/// own. Returns whether there are as few kinds as fit.
bool mark_layers(ModelWeights& weights, const std::function<void(LayerKind& kind, std::int64_t position)>& mark);

}  // namespace gpuplan
