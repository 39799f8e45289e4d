#include "base/environment.h"
#include "models/hub/hub.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/user_folders.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestId = 192;  // characters; the Hub allows 96 for the name

std::string hub_variable(const char* name) { return std::string(trim(text_of_variable(name))); }

bool is_switched_on(const char* name) {
  const std::string value = to_lower(hub_variable(name));
  return value == "1" || value == "on" || value == "yes" || value == "true";
}

fs::path with_home(const std::string& path) {
  return path == "~" || path.starts_with("~/") ? home_dir() / path.substr(std::min<std::size_t>(2, path.size()))
                                               : fs::path(path);
}

fs::path hf_home() {
  const std::string home = hub_variable("HF_HOME");
  return home.empty() ? user_cache_home() / "huggingface" : with_home(home);
}

fs::path hub_cache() {
  for (const char* const name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (const std::string folder = hub_variable(name); !folder.empty()) return with_home(folder);
  return hf_home() / "hub";
}

std::string read_endpoint(const std::string& standard) {
  std::string endpoint = hub_variable("HF_ENDPOINT");
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (endpoint.empty()) return standard;
  const bool is_plain = std::ranges::all_of(endpoint, [](unsigned char c) { return std::isgraph(c); });
  // The text itself may hold a password, so it is not repeated.
  if (!is_plain || origin_of(endpoint).empty() || endpoint.find_first_of("?#") != std::string::npos)
    throw InputError("HF_ENDPOINT", "is no http:// or https:// address without user and password",
                     "for example https://huggingface.co");
  return endpoint;
}

std::string checked_token(const std::string& token, const std::string& where) {
  const bool is_plain = std::ranges::all_of(token, [](unsigned char c) { return std::isgraph(c); });
  if (is_plain) return token;
  throw InputError(where, "holds something that is no token", "a token is one word, such as hf_…");
}

std::string read_token() {
  if (is_switched_on("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return {};
  for (const char* const name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})
    if (const std::string token = hub_variable(name); !token.empty()) return checked_token(token, name);
  const std::string named = hub_variable("HF_TOKEN_PATH");
  const fs::path file = named.empty() ? hf_home() / "token" : with_home(named);
  if (!is_file(file)) return {};
  return checked_token(std::string(trim(read_file(file))), file.string());
}

}  // namespace

HubSettings hub_settings() {
  HubSettings settings;
  settings.endpoint = read_endpoint(settings.endpoint);
  settings.token = read_token();
  settings.hub_cache = hub_cache();
  settings.own_cache = user_cache_home() / "gpuplan";
  settings.is_offline = is_switched_on("HF_HUB_OFFLINE") || is_switched_on("TRANSFORMERS_OFFLINE");
  if (const std::string seconds = hub_variable("HF_HUB_DOWNLOAD_TIMEOUT"); !seconds.empty())
    settings.limits.stall_seconds = settings.limits.connect_seconds =
        double(parse_integer(seconds, "HF_HUB_DOWNLOAD_TIMEOUT", 1));
  return settings;
}

bool is_hub_id(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == 0 || slash == std::string_view::npos || slash + 1 == text.size() || text.size() > kLongestId)
    return false;
  const auto is_allowed = [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '-' || c == '_'; };
  const auto is_part = [&](std::string_view part) {
    return std::ranges::all_of(part, is_allowed) && !part.starts_with('.') && !part.starts_with('-') &&
           part.find("..") == std::string_view::npos;
  };
  return is_part(text.substr(0, slash)) && is_part(text.substr(slash + 1));
}

}  // namespace gpuplan
