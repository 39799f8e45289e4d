// LLaMA Pro (arXiv 2401.02415) as ms-swift has it: copies of layers between the model's own, which alone are trained.
// The model is another one then, with more layers.
#pragma once

#include <string>
#include <vector>

#include "ecosystem/config_reader.h"

namespace gpuplan {

/// Puts a copy behind the last layer of each group into request.model, and trains the copies alone. Requires:
/// request.model is set. Throws InputError where the layers are not divisible.
void insert_layers(const ConfigReading& reading, EstimateRequest& request, std::vector<std::string>& notes);

}  // namespace gpuplan
