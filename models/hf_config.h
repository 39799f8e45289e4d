// Hugging Face config.json to ModelSpec and back: finds the family and leaves the rest to it.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "models/model_spec.h"

namespace gpuplan {

class Fields;

/// Reads a Hugging Face config.json. `where` names the file in errors. Throws InputError listing every bad field.
ModelSpec parse_hf_config(const nlohmann::json& config, const std::string& where);
/// The same of an object in a file; problems are noted there.
ModelSpec read_hf_config(Fields& config);

/// The Hugging Face config that `model` was read from, without the keys that were not read (what plan.json stores under
/// model.config); parse_hf_config makes the same model of it.
nlohmann::json to_hf_config(const ModelSpec& model);

}  // namespace gpuplan
