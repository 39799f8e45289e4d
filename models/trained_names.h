// Names by which a recipe says that some parameters alone are trained: "lm_head", "layers.24-31.mlp", "model.norm".
// Names are those of the checkpoint; '*' stands for any text, and 24-27,31 for one of several numbers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "models/weights.h"

namespace gpuplan {

/// Says whether `name` means a parameter, or a module above it, by the whole of some neighbouring parts of its path:
/// "mlp" and "layers.0-3" mean "model.layers.2.mlp.up_proj.weight".
bool names_parameter(std::string_view name, std::string_view parameter);

/// The value of --train-only, "lm_head+layers.24-31". Throws InputError for an empty name or a broken list of numbers.
std::vector<std::string> parse_trained_names(std::string_view text, std::string_view where);

/// The parameters of the layer at `position`, by their whole names; of experts that are alike the first.
std::string parameter_name(const LayerKind& kind, std::int64_t position, const WeightTensor& tensor);

/// Marks what is not among the names as frozen, and the layers in front of the first that trains something. Layers of
/// a kind that differ become kinds of their own. Returns the mistake of a name that means nothing in the model.
std::optional<InputError> mark_frozen(ModelWeights& weights, const std::vector<std::string>& trained);

}  // namespace gpuplan
