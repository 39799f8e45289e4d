// A model of the Hugging Face Hub as a folder with its config.json: in huggingface_hub's cache, in gpuplan's own, or
// fetched. models/catalogue reads the folder as it reads any other.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "models/hub/hub_settings.h"

namespace gpuplan {

struct HubModel {
  std::filesystem::path folder;  // with config.json, and model.safetensors.index.json or shards where there are any
  std::string origin;            // for people: "the Hugging Face cache", "huggingface.co"
};

/// `id` in huggingface_hub's cache (the snapshot that refs/main names), then in gpuplan's own. Requires: is_hub_id(id).
std::optional<HubModel> find_cached_model(const std::string& id, const HubSettings& settings);

/// Gets config.json and model.safetensors.index.json of `id` from the Hub into gpuplan's cache, each written whole or
/// not at all; nothing else is fetched. `hint` is what a model that does not exist is answered with. Requires:
/// is_hub_id(id). Throws InputError for a model that is not there, is gated, or has no config.json, and EnvError when
/// the Hub cannot be asked or sends no JSON.
HubModel fetch_hub_model(const std::string& id, const HubSettings& settings, const std::string& hint);

}  // namespace gpuplan
