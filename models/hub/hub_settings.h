// Where models of the Hugging Face Hub are looked for, as huggingface_hub reads it from the environment.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/https.h"

namespace gpuplan {

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

}  // namespace gpuplan
