#include "models/hub/hub.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigFile = "config.json";
constexpr const char* kIndexName = "model.safetensors.index.json";
// Bytes. The largest published config.json is below 1 MB; the index of a model with 70,000 tensors has about 10 MB.
constexpr std::int64_t kMostRevisionBytes = 256;  // of refs/main: 40 hex digits

std::string with_dashes(const std::string& id) {
  const std::size_t slash = id.find('/');
  return fmt::format("models--{}--{}", id.substr(0, slash), id.substr(slash + 1));
}

/// The commit that refs/main names; empty where there is none, or something that could leave the folder.
std::string main_revision(const fs::path& repository) {
  const fs::path file = repository / "refs" / "main";
  if (!is_file(file)) return {};
  const InputFile input(file);
  if (input.size() > kMostRevisionBytes) return {};
  const std::string revision(trim(input.read(0, input.size())));
  const bool is_name = std::ranges::all_of(revision, [](unsigned char c) { return std::isalnum(c); });
  return is_name ? revision : std::string();
}

std::optional<fs::path> snapshot_of(const std::string& id, const fs::path& hub_cache) {
  const fs::path repository = hub_cache / with_dashes(id);
  const std::string revision = main_revision(repository);
  const fs::path folder = repository / "snapshots" / revision;
  if (revision.empty() || !is_file(folder / kConfigFile)) return {};
  return folder;
}

std::string host_of(const std::string& endpoint) {
  const std::string origin = origin_of(endpoint);
  const std::string host = origin.substr(origin.find("://") + 3);
  const std::string_view usual = origin.starts_with("https://") ? ":443" : ":80";
  return host.ends_with(usual) ? host.substr(0, host.size() - usual.size()) : host;
}

/// The cache of one endpoint: a mirror may hold other files under the same name.
fs::path own_folder(const std::string& id, const HubSettings& settings) {
  std::string host = host_of(settings.endpoint);
  std::ranges::replace(host, ':', '_');
  return settings.own_cache / "hub" / host / with_dashes(id);
}

struct Asked {
  const std::string& id;
  const HubSettings& settings;
  const std::string& hint;
};

[[noreturn]] void refuse_gated(const Asked& asked) {
  const bool has_token = !asked.settings.token.empty();
  throw InputError("--model",
                   fmt::format("'{}' is gated on {}, and {}", asked.id, host_of(asked.settings.endpoint),
                               has_token ? "your token has no access to it" : "no token is set"),
                   fmt::format("accept the licence at {}/{} and set HF_TOKEN{}", asked.settings.endpoint, asked.id,
                               has_token ? " to a token of that account" : ""));
}

[[noreturn]] void refuse_missing(const Asked& asked) {
  throw InputError(
      "--model",
      fmt::format("'{}' is not on {}, or it is private{}", asked.id, host_of(asked.settings.endpoint),
                  asked.settings.token.empty() ? " and no token is set" : " and your token cannot read it"),
      asked.hint);
}

/// Gives what an answer other than 200 means. Source: the Hub's X-Error-Code (huggingface_hub, utils/_http.py); it
/// answers 401 for a repository that does not exist when no token is sent.
[[noreturn]] void refuse_status(const HttpResponse& response, const std::string& file, const Asked& asked) {
  const std::string host = host_of(asked.settings.endpoint);
  if (response.error_code == "GatedRepo") refuse_gated(asked);
  if (response.error_code == "RepoNotFound") refuse_missing(asked);
  if (response.status == 404 && response.error_code == "EntryNotFound")
    throw InputError("--model", fmt::format("'{}' is on {}, but has no {}", asked.id, host, file),
                     "GGUF files and adapters cannot be planned: name the model that they were made from");
  if (response.status == 404) refuse_missing(asked);
  if (response.status == 401 && !asked.settings.token.empty())
    throw InputError("HF_TOKEN", fmt::format("{} does not accept the token (401)", host),
                     "make a new one, or unset it");
  if (response.status == 401 || response.status == 403) refuse_gated(asked);
  if (response.status == 429)
    throw EnvError(fmt::format("{} is asked too often from here (429): try again later{}", host,
                               asked.settings.token.empty() ? ", or set HF_TOKEN" : ""));
  throw EnvError(fmt::format("{}: answered with status {}", response.url, response.status));
}

HttpResponse ask_hub(const std::string& file, std::size_t most_bytes, const Asked& asked) {
  HttpLimits limits = asked.settings.limits;
  limits.most_bytes = std::min(limits.most_bytes, most_bytes);
  const std::string url = fmt::format("{}/{}/resolve/main/{}", asked.settings.endpoint, asked.id, file);
  HttpResponse response = http_get(url, asked.settings.token, limits);
  if (response.status != 200) return response;
  try {
    if (!parse_json(response.body, url).is_object()) throw InputError(url, "is no object");
  } catch (const InputError& error) {
    throw EnvError(fmt::format("{}: what was sent is no {}: {}", url, file, error.problem()));
  }
  return response;
}

void keep(const fs::path& folder, const std::string& config, const std::optional<std::string>& index) {
  try {
    make_folders(folder);
  } catch (const EnvError& error) {
    throw EnvError(fmt::format("{}; set XDG_CACHE_HOME to a folder that can be written", error.what()));
  }
  set_permissions(folder, fs::perms::owner_all);  // gated configs are the user's own
  if (index)
    write_file_atomically(folder / kIndexName, *index);
  else
    remove_file(folder / kIndexName);
  write_file_atomically(folder / kConfigFile, config);  // last: its presence says that the rest is here
}

}  // namespace

std::optional<HubModel> find_cached_model(const std::string& id, const HubSettings& settings) {
  if (const auto snapshot = snapshot_of(id, settings.hub_cache)) return HubModel{*snapshot, "the Hugging Face cache"};
  const fs::path own = own_folder(id, settings);
  if (!is_file(own / kConfigFile)) return {};
  return HubModel{own, fmt::format("gpuplan's copy from {}", host_of(settings.endpoint))};
}

void forget_hub_model(const std::string& id, const HubSettings& settings) {
  remove_file(own_folder(id, settings) / kConfigFile);
}

HubModel fetch_hub_model(const std::string& id, const HubSettings& settings, const std::string& hint) {
  const Asked asked{id, settings, hint};
  const HttpResponse config = ask_hub(kConfigFile, kConfigLimit.bytes, asked);
  if (config.status != 200) refuse_status(config, kConfigFile, asked);
  HttpResponse index = ask_hub(kIndexName, kIndexLimit.bytes, asked);
  // A model of one file has no index.
  if (index.status != 200 && index.status != 404) refuse_status(index, kIndexName, asked);
  const fs::path folder = own_folder(id, settings);
  keep(folder, config.body, index.status == 200 ? std::optional(std::move(index.body)) : std::nullopt);
  return {folder, host_of(settings.endpoint)};
}

}  // namespace gpuplan
