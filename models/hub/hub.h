// Models of the Hugging Face Hub: where they are looked for, and how they are fetched.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/https.h"

namespace gpuplan {

// Where models of the Hugging Face Hub are looked for, as huggingface_hub reads it from the environment.

struct HubSettings {
  std::string endpoint = "https://huggingface.co";  // without a slash at its end
  std::string token;                                // empty: none. Secret: it never stands in a message
  std::filesystem::path hub_cache;                  // huggingface_hub's: models--org--name/…
  std::filesystem::path own_cache;                  // gpuplan's
  bool is_offline{};
  HttpLimits limits;
};

/// HF_ENDPOINT; HF_TOKEN, or the file HF_TOKEN_PATH or $HF_HOME/token, unless HF_HUB_DISABLE_IMPLICIT_TOKEN;
/// HF_HUB_CACHE, or $HF_HOME/hub; HF_HUB_OFFLINE; HF_HUB_DOWNLOAD_TIMEOUT (seconds). HF_HOME is huggingface/ in
/// $XDG_CACHE_HOME or ~/.cache; gpuplan's own cache is gpuplan/ there. Throws InputError for an endpoint that is no
/// http(s) address, a token with characters that no token has, and a time limit that is no number.
/// Source: https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables.
HubSettings hub_settings();

/// "org/name" as the Hub allows it: letters, digits, '.', '-', '_', one slash.
bool is_hub_id(std::string_view text);

// A model of the Hugging Face Hub as a folder with its config.json: in huggingface_hub's cache, in gpuplan's own, or
// fetched. models/catalogue reads the folder as it reads any other.

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
/// Removes gpuplan's own copy.
void forget_hub_model(const std::string& id, const HubSettings& settings);

}  // namespace gpuplan
