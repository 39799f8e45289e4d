#include "models/catalogue.h"
#include "base/surroundings.h"
#include "models/hf_config.h"

#include <algorithm>
#include <array>
#include <memory>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/fields.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/names.h"
#include "base/packed_fields.h"
#include "base/user_folders.h"
#include "base/utf8.h"
#include "models/catalogue_file.h"
#include "models/catalogue_row.h"
#include "models/checkpoint.h"
#include "models/checkpoint_quant.h"
#include "models/families.h"
#include "models/hub/hub.h"
#include "models/model_names.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFlag = "--model";

fs::path expand_home(std::string_view text) {
  if (text == "~" || text.starts_with("~/")) return home_dir() / fs::path(text.substr(text.size() > 1 ? 2 : 1));
  return text;
}

bool looks_like_path(std::string_view text) {
  constexpr std::array kEndings{".json", ".yaml", ".yml", ".toml", ".sh", ".py", ".ipynb"};
  return text.find('/') != std::string_view::npos || text.starts_with(".") || text.starts_with("~") ||
         std::ranges::any_of(kEndings, [&](const char* ending) { return text.ends_with(ending); });
}

std::string nearest_names(std::string_view text, const std::vector<CatalogueEntry>& entries) {
  std::vector<std::string> names;
  for (const CatalogueEntry& entry : entries) names.push_back(entry.name);
  const std::string_view tail = text.substr(text.rfind('/') == std::string_view::npos ? 0 : text.rfind('/') + 1);
  return did_you_mean(tail.empty() ? text : tail, names,
                      "'gpuplan models' lists the names; a folder with a config.json works too");
}

/// Where only the name is known, and it begins as those of a family that is not modelled.
void refuse_not_modelled(std::string_view text) {
  if (const std::string reason = why_name_is_not_modelled(text); !reason.empty())
    throw InputError(kFlag, fmt::format("'{}' cannot be planned: {}", text, reason),
                     "modelled: " + modelled_families());
}

[[noreturn]] void refuse_unknown(std::string_view text, const std::vector<CatalogueEntry>& entries) {
  refuse_not_modelled(text);
  const std::string hint = nearest_names(text, entries);
  if (looks_like_path(text))
    throw InputError(kFlag, fmt::format("'{}': no such file or folder, and no model of this name is known", text),
                     hint);
  throw InputError(kFlag, fmt::format("unknown model '{}'", text), hint);
}

[[noreturn]] void refuse_ambiguous(std::string_view text, const std::vector<const CatalogueEntry*>& found) {
  std::vector<std::string> names;
  for (const CatalogueEntry* entry : found) names.push_back(entry->name);
  throw InputError(kFlag, fmt::format("'{}' may mean {} models", text, found.size()),
                   fmt::format("say which: {}", fmt::join(names, ", ")));
}

/// The entry's shape with the weights of a copy in another number format.
void set_checkpoint(ModelSpec& spec, json quantization_config) {
  json config = *spec.config.keys;
  config["quantization_config"] = std::move(quantization_config);
  Fields fields(config, spec.source);
  spec.checkpoint = read_checkpoint_quant(fields);
  spec.config.keys = std::make_shared<const json>(std::move(config));
}

LoadedModel load_entry(const CatalogueEntry& entry, std::string_view text) {
  if (!entry.is_modelled)
    throw InputError(kFlag, fmt::format("model '{}' ({}) is not modelled yet", entry.name, entry.model_type),
                     "modelled: " + modelled_families());
  LoadedModel loaded = read_catalogue_file(entry.file);
  if (std::string note = explain_match(text, entry); !note.empty()) loaded.notes.insert(loaded.notes.begin(), note);
  if (json quantised = quantization_config_of_name(text); !quantised.is_null())
    set_checkpoint(loaded.spec, std::move(quantised));
  // What is trained, saved and exported is the model that was asked for, with the shape of the entry.
  if (is_hub_id(text) && to_lower(text) != to_lower(entry.id)) loaded.spec.id = text;
  return loaded;
}

/// The one entry that `text` names; nullptr when none does.
const CatalogueEntry* find_entry(std::string_view text, const std::vector<CatalogueEntry>& entries) {
  auto found = match_model_name(text, entries);
  if (found.empty())  // a family of one model: "tinyllama"
    for (const CatalogueEntry& entry : entries)
      if (squash(entry.family) == squash(text)) found.push_back(&entry);
  if (found.size() > 1) refuse_ambiguous(text, found);
  return found.empty() ? nullptr : found.front();
}

json read_config(const fs::path& file) {
  if (!is_file(file)) throw InputError(file.string(), "is not a regular file", "give a config.json or its folder");
  return read_json_file(file, kConfigLimit);
}

LoadedModel read_path(const fs::path& path, MissingShards missing) {
  const bool has_folder = is_folder(path);
  const fs::path file = has_folder ? path / "config.json" : path;
  if (!is_there(file)) throw InputError(path.string(), "this folder has no config.json", "give the folder of a model");
  const json config = read_config(file);
  if (is_catalogue_file(config)) return read_catalogue_file(file);
  LoadedModel loaded{.spec = parse_hf_config(config, file.string()), .notes = {}};
  const fs::path folder = absolute_path(file).lexically_normal().parent_path();
  loaded.spec.name = printable_line(
      file.filename() == "config.json" && folder.has_filename() ? folder.filename().string() : file.stem().string());
  loaded.spec.id = path.string();
  if (config.contains("text_config") && !loaded.spec.vision.is_present())
    loaded.notes.push_back("the config is multimodal: only its text model is planned");
  if (!has_folder || loaded.spec.checkpoint.is_present()) return loaded;  // packed tensors have other names and shapes
  for (std::string& note : check_checkpoint(loaded.spec, path, missing)) loaded.notes.push_back(std::move(note));
  return loaded;
}

LoadedModel load_path(const fs::path& path, MissingShards missing = MissingShards::Refuse) {
  try {
    return read_path(path, missing);
  } catch (const fs::filesystem_error& error) {
    throw InputError(path.string(), fmt::format("cannot be read: {}", error.code().message()));
  }
}

LoadedModel read_hub_model(const std::string& id, const HubModel& model) {
  LoadedModel loaded = load_path(model.folder, MissingShards::NamesOnly);
  loaded.spec.id = id;
  loaded.spec.name = id.substr(id.find('/') + 1);
  loaded.spec.source = fmt::format("config.json of {} ({})", id, model.origin);
  loaded.notes.insert(loaded.notes.begin(), fmt::format("{}: config.json of {}", id, model.origin));
  return loaded;
}

/// A model that the catalogue lacks: of a local cache, else of the Hub.
/// What is fetched and then refused is not kept: it may be another file tomorrow.
LoadedModel fetch_and_read(const std::string& id, const HubSettings& hub, const std::string& hint) {
  const HubModel fetched = fetch_hub_model(id, hub, hint);
  try {
    return read_hub_model(id, fetched);
  } catch (const InputError&) {
    forget_hub_model(id, hub);
    throw;
  }
}

LoadedModel load_hub_model(const std::string& id, const HubSettings& hub, const std::vector<CatalogueEntry>& entries) {
  if (const auto cached = find_cached_model(id, hub)) return read_hub_model(id, *cached);
  const std::string hint = nearest_names(id, entries);
  if (hub.is_offline) refuse_not_modelled(id);
  if (hub.is_offline)
    throw InputError(kFlag,
                     fmt::format("'{}' is neither in the catalogue nor in a local cache, and the Hub is not asked "
                                 "(--offline or HF_HUB_OFFLINE)",
                                 id),
                     hint);
  try {
    return fetch_and_read(id, hub, hint);
  } catch (const EnvError& error) {
    throw EnvError(
        fmt::format("'{}' is neither in the catalogue nor in a local cache, and the Hub cannot be asked:\n"
                    "  {}\n  {}",
                    id, error.what(), hint));
  }
}

/// A file that was mistyped is not looked for on the Hub.
bool may_be_hub_id(std::string_view text) { return is_hub_id(text) && !text.ends_with(".json"); }

std::set<std::string> names_of_files(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::path& file : files_in(folder, ".json"))
    if (file.filename() != kIndexFile) names.insert(file.stem().string());
  return names;
}

/// The rows of an index on the disk whose files are there.
std::vector<CatalogueEntry> read_index(const fs::path& file, const std::set<std::string>& names) {
  const json root{{"models", read_json_file(file)}};
  std::vector<CatalogueEntry> rows;
  Fields index(root, file.string());
  for (Fields& row : index.list("models"))
    if (const std::string name = row.text("name"); names.contains(name))
      rows.push_back(read_catalogue_row(row, file.parent_path() / (name + ".json"), "parameters"));
  index.finish();
  return rows;
}

/// The rows of the archive, which was packed beside the files that they list.
std::vector<CatalogueEntry> packed_index(std::string_view rows, const fs::path& file) {
  const std::string where = file.string(), folder = file.parent_path().string() + "/";
  const std::vector<PackedValue> packed = PackedValue(rows).items();
  std::vector<CatalogueEntry> entries;
  entries.reserve(packed.size());
  for (const PackedValue& row : packed) {
    CatalogueEntry& entry = entries.emplace_back(catalogue_row(PackedFields(row, where), "parameters"));
    entry.file = folder + entry.name + ".json";
  }
  return entries;
}

std::vector<CatalogueEntry> read_folder(const fs::path& folder) {
  const fs::path file = folder / kIndexFile;
  if (const auto rows = packed_bytes(file, DataFormat::Json)) return packed_index(*rows, file);
  std::set<std::string> names = names_of_files(folder);
  std::vector<CatalogueEntry> entries;
  if (is_there(file)) entries = read_index(file, names);
  for (const CatalogueEntry& entry : entries) names.erase(entry.name);
  for (const std::string& name : names) {
    const fs::path unlisted = folder / (name + ".json");
    const json content = read_json_file(unlisted);
    Fields fields(content, unlisted.string());
    entries.push_back(read_catalogue_row(fields, unlisted, "total_params"));
  }
  std::ranges::sort(entries, [](const auto& a, const auto& b) { return a.name < b.name; });
  return entries;
}

std::vector<CatalogueEntry> read_catalogue() {
  const fs::path folder = data_dir() / "models";
  std::vector<CatalogueEntry> entries = read_folder(folder);
  if (entries.empty()) throw EnvError(fmt::format("{}: cannot be read, or holds no model", folder.string()));
  return entries;
}

}  // namespace

const std::vector<CatalogueEntry>& list_catalogue() { return read_once<read_catalogue>(); }

const CatalogueEntry* find_in_catalogue(std::string_view name) { return find_entry(trim(name), list_catalogue()); }

LoadedModel load_model(std::string_view text, const std::optional<HubSettings>& hub) {
  if (trim(text).empty()) throw InputError(kFlag, "is empty", "give a model name, a config.json or a model folder");
  const fs::path path = expand_home(trim(text));
  const bool is_path = is_there(path);
  const std::vector<CatalogueEntry>& entries = list_catalogue();
  if (is_path && (!is_folder(path) || is_there(path / "config.json"))) {
    LoadedModel loaded = load_path(path);
    if (!looks_like_path(trim(text)) && !match_model_name(trim(text), entries).empty())
      loaded.notes.insert(loaded.notes.begin(),
                          fmt::format("{} is read from here, not from the catalogue", path.string()));
    return loaded;
  }
  if (const CatalogueEntry* entry = find_entry(trim(text), entries)) return load_entry(*entry, trim(text));
  if (is_path) return load_path(path);  // a folder without config.json: says so
  if (hub && may_be_hub_id(trim(text))) return load_hub_model(std::string(trim(text)), *hub, entries);
  refuse_unknown(trim(text), entries);
}

LoadedModel refresh_model(const std::string& id, const HubSettings& hub) {
  if (!is_hub_id(id)) throw InputError("--refresh", fmt::format("'{}' is no name of the Hub", id), "org/name");
  if (hub.is_offline)
    throw InputError("--refresh", "needs the Hub, which --offline or HF_HUB_OFFLINE rules out", "leave that out");
  const std::vector<CatalogueEntry>& entries = list_catalogue();
  LoadedModel loaded = fetch_and_read(id, hub, nearest_names(id, entries));
  const CatalogueEntry* entry = find_entry(id, entries);
  if (!entry) return loaded;
  const bool is_same = list_weights(loaded.spec).total_elements() == entry->parameters;
  loaded.notes.push_back(fmt::format("--model {} means the catalogue's {}, which has {}", id, entry->name,
                                     is_same ? "as many parameters" : "another number of parameters"));
  return loaded;
}

}  // namespace gpuplan
