// What Gemma 2 and 3 share: four norms per layer, and windows in some layers.
#pragma once

#include "models/families/decoder.h"

namespace gpuplan {

/// Attention and gated MLP, each with a norm before and after.
ModelWeights sandwich_norm_weights(const ModelSpec& spec);
/// Norms, activation, biases and window of Gemma 2 and 3; of every `period` layers the last one attends fully.
void read_sandwich(Fields& config, ModelSpec& spec, std::int64_t default_window, std::int64_t period);
/// Writes what read_sandwich and read_decoder read; `layer_types` only when the layers do not follow `period`.
void write_sandwich(const ModelSpec& spec, nlohmann::json& config, std::int64_t period);

}  // namespace gpuplan
