// Parameters that a trainer's file trains alone, once the model is known: regular expressions of axolotl and ms-swift,
// LLaMA-Factory's frozen layers, PEFT's chosen layers, torchtune's parts, as names that the planner knows
// (models/trained_names.h).
#pragma once

#include <functional>
#include <regex>
#include <string>
#include <vector>

#include "ecosystem/config_reader.h"

namespace gpuplan {

/// A regular expression of Python. Throws InputError for one that is not read, or that is too long.
std::regex python_regex(const std::string& text, const std::string& where);

/// The names under which transformers' versions may have a parameter or module: layers of the language model stand in
/// "model", "language_model.model" or "model.language_model". The first is the checkpoint's.
std::vector<std::string> names_of_versions(const std::string& parameter, ModelPart part);

/// Calls visit(name, tensor) for every parameter in the order of the model; of alike experts for the first alone.
void each_parameter(const ModelWeights& weights,
                    const std::function<void(const std::string&, const WeightTensor&)>& visit);

/// Says of a parameter if it is meant.
using MeansParameter = std::function<bool(const std::string& parameter, const WeightTensor& tensor)>;

/// The shortest names for what is meant: whole layers, then modules of layers, then the ends. Empty: nothing is meant.
std::vector<std::string> names_of_meant(const ModelWeights& weights, const MeansParameter& is_meant);

/// Sets what is trained alone, where the files say so. Requires: request.model is set.
void settle_trained(const ConfigReading& reading, EstimateRequest& request, std::vector<std::string>& notes);

}  // namespace gpuplan
