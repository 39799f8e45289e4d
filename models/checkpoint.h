// A model folder's checkpoint against the tensors computed from its config: the check that a plan counts what is there.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "models/model_spec.h"

namespace gpuplan {

/// Reads the safetensors headers in `folder` (none: no check) and compares names and shapes with list_weights(model).
/// Buffers, a stored copy of a tied head and vision parts are known extras. Returns notes, tensor by tensor when the
/// elements differ by more than 0.1 %; throws InputError above 2 %, for a broken file, and for a quantised checkpoint.
std::vector<std::string> check_checkpoint(const ModelSpec& model, const std::filesystem::path& folder);

}  // namespace gpuplan
