#include "ecosystem/given_files.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "ecosystem/notebook.h"
#include "ecosystem/out_of_memory.h"
#include "ecosystem/python_launch.h"
#include "ecosystem/script_folder.h"
#include "ecosystem/shipped_files.h"

namespace gpuplan {
namespace {

constexpr int kMostBases = 8;

std::string last_of_path(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// "$(cd "$(dirname "$0")" && pwd)/configs/a.yaml", "$ROOT/configs/a.yaml": what stands behind the folder that only a
/// run knows. Empty where there is none.
std::string behind_open_folder(const std::string& path) {
  if (path.empty() || path[0] != '$') return "";
  std::size_t end = path.find('/');
  if (path.starts_with("$(")) {
    int depth = 0;
    for (end = 1; end < path.size(); ++end) {
      depth += path[end] == '(' ? 1 : path[end] == ')' ? -1 : 0;
      if (depth == 0) break;
    }
    ++end;
  }
  return end < path.size() && path[end] == '/' ? path.substr(end + 1) : "";
}

bool is_script(const ConfigFile& file) { return is_python_script(file) || is_launch_script(file); }

/// Says whether the command starts one process.
bool starts_one(const Launch& launch) {
  return std::ranges::any_of(launch.parts, [](const LaunchPart& part) {
    return std::ranges::any_of(part.flags, [](const LaunchFlag& flag) {
      return flag.name == "starts" && flag.values.size() == 1 && flag.values[0].text == "no";
    });
  });
}

/// Says whether a given file is one of the program whose flags a script has.
bool is_file_of(const ConfigFile& file, const KeyTable* table) {
  if (is_script(file) || find_out_of_memory(file.text)) return false;
  try {
    const KeyTable* own = parse_config(file).table;
    return own && (table ? own == table : own->role == FileRole::Trainer);
  } catch (const InputError&) { return false; }  // told where the file is read
}

}  // namespace

std::optional<ConfigFile> GivenFiles::take_script() {
  for (const auto is_kind : {is_launch_script, is_python_script}) {
    const auto found = std::find_if(files_.begin(), files_.end(), is_kind);
    if (found == files_.end()) continue;
    const auto second = std::find_if(found + 1, files_.end(), is_kind);
    if (second != files_.end())
      throw InputError(second->name, fmt::format("is a second script beside {}", found->name), "give one of them");
    ConfigFile script = *found;
    files_.erase(found);
    return script;
  }
  return {};
}

std::optional<ConfigFile> GivenFiles::take_next() {
  if (files_.empty()) return {};
  ConfigFile file = std::move(files_.front());
  files_.erase(files_.begin());
  return file;
}

std::optional<ConfigFile> GivenFiles::find_source(const Launch& launch, const std::string& by) {
  const FindNamed find = [&](const std::string& named, const std::string& of) { return take_or_find(named, of); };
  return launch.is_module ? find_python_module(launch.script, by, find) : take_or_find(launch.script, by);
}

std::string GivenFiles::settings_file() const {
  for (const ConfigFile& file : files_) {
    if (is_script(file) || find_out_of_memory(file.text)) continue;
    try {
      const KeyTable* const table = parse_config(file).table;
      if (table && table->role == FileRole::Trainer) return file.name;
    } catch (const InputError&) { return file.name; }  // keys of the script's own
  }
  return {};
}

Launch GivenFiles::read_script(const ConfigFile& script) {
  const bool has_commands = is_python_script(script) && is_notebook_of_commands(script);
  const FindNamed find = [&](const std::string& named, const std::string& by) { return take_or_find(named, by); };
  if (is_python_script(script) && !has_commands) {
    LaunchPart beside;
    if (!parsed_settings(script, find).empty()) beside.config = settings_file();
    return read_python_launch(script, find, beside, {.num_gpus = num_gpus_, .environment = {}});
  }
  Launch launch =
      read_launch(has_commands ? ConfigFile{script.name, commands_of_notebook(script.text, script.name)} : script);
  written_ = launch.written;
  folder_ = launch.folder;
  if (launch.script.empty()) return launch;
  const LaunchPart& started = launch.parts.front();
  const auto source = find_source(launch, script.name);
  // the program of this name is told what to train; a script of one's own knows it
  const bool says_nothing =
      started.may_be_own && started.config.empty() &&
      std::ranges::none_of(started.flags, [](const LaunchFlag& flag) { return flag.begin < flag.end; });
  const bool has_parser = source && started.table.empty() && !parsed_settings(*source, find).empty();
  const bool reads_source =
      source && (says_nothing || has_parser || reads_own_options(*source, !started.config.empty()));
  if (!launch.needs_source && !reads_source) return launch;
  if (!source)
    throw InputError(script.name, fmt::format("starts {} without flags that tell batch and length", launch.script),
                     fmt::format("give it too: --from {}", last_of_path(launch.script)));
  Launch inner = read_python_launch(*source, find, started, {.num_gpus = num_gpus_, .environment = launch.environment});
  if (!has_parser) inner.parts.front().file = source->name;
  if (inner.parts.front().is_whole && num_gpus_ > 1 && starts_one(launch))
    throw InputError(
        source->name,
        fmt::format("puts the whole model on one GPU of its one process, and {} are asked about", num_gpus_),
        "ask about one, or start it on all with torchrun or accelerate launch");
  if (!says_nothing)
    launch.notes.push_back(fmt::format("{}: its own options have the values of the command", source->name));
  launch.parts.front() = std::move(inner.parts.front());
  launch.notes.insert(launch.notes.end(), inner.notes.begin(), inner.notes.end());
  return launch;
}

std::optional<ConfigFile> GivenFiles::take_named(const std::string& named) {
  const auto found = std::find_if(files_.begin(), files_.end(),
                                  [&](const ConfigFile& f) { return last_of_path(f.name) == last_of_path(named); });
  if (found == files_.end()) return {};
  ConfigFile file = *found;
  files_.erase(found);
  return file;
}

std::optional<ConfigFile> GivenFiles::find_named(const std::string& named, const std::string& by) const {
  if (const auto written = written_.find(named); written != written_.end()) return ConfigFile{named, written->second};
  if (!find_) return std::nullopt;
  if (!folder_.empty())
    if (auto found = find_(in_script_folder(folder_, named), by)) return found;
  if (auto found = find_(named, by)) return found;
  const std::string behind = behind_open_folder(named);
  return behind.empty() ? std::nullopt : find_(behind, by);
}

std::optional<ConfigFile> GivenFiles::take_or_find(const std::string& named, const std::string& by) {
  if (auto given = take_named(named)) return given;
  return find_named(named, by);
}

ParsedConfig GivenFiles::parse_with_base(const ConfigFile& file) const {
  try {
    return parse_config(file);
  } catch (const InputError&) {
    const KeyTable* table = table_of_base(file, 0);
    if (!table) throw;
    return parse_config(file, table);
  }
}

const KeyTable* GivenFiles::table_of_base(const ConfigFile& file, int depth) const {
  if (depth == kMostBases) return nullptr;
  for (const KeyTable& table : key_tables()) {
    if (table.base_key.empty()) continue;
    const nlohmann::json root = parse_config(file, &table).tree->root;
    const auto named = root.find(table.base_key);
    if (named == root.end() || !named->is_string()) continue;
    const std::string base = *named;
    const auto given =
        std::ranges::find(files_, last_of_path(base), [](const auto& f) { return last_of_path(f.name); });
    const auto found = given != files_.end() ? std::optional(*given) : find_named(base, file.name);
    if (!found)
      throw InputError(fmt::format("{}: {}", file.name, table.base_key),
                       fmt::format("names {}, which is not there, and says too little without it", base),
                       fmt::format("give it too: --from {}", last_of_path(base)));
    try {
      return parse_config(*found).table;
    } catch (const InputError&) { return table_of_base(*found, depth + 1); }
  }
  return nullptr;
}

void GivenFiles::put_base_files(const ConfigFile& file, const ParsedConfig& parsed) {
  if (parsed.table && !parsed.table->base_key.empty()) merge_bases(parsed.tree->root, file.name, *parsed.table, 0);
}

void GivenFiles::merge_bases(nlohmann::json& root, const std::string& by, const KeyTable& table, int depth) {
  const std::string& key = table.base_key;
  if (depth == kMostBases || !root.contains(key)) return;
  const nlohmann::json named = root[key].is_array() ? root[key] : nlohmann::json::array({root[key]});
  if (!std::ranges::all_of(named, [](const nlohmann::json& one) { return one.is_string(); })) return;
  const KeyRow* const row = table.find(key);
  nlohmann::json base = nlohmann::json::object();
  for (const std::string one : named) {
    const auto found = take_or_find(one, by);
    if (!found && row && std::ranges::find(row->harmless, nlohmann::json(one)) != row->harmless.end())
      continue;  // whose values the table has
    if (!found)
      throw InputError(
          fmt::format("{}: {}", by, key),
          fmt::format("names {}, which is not there{}", one, row && !row->reason.empty() ? ": " + row->reason : ""),
          fmt::format("give it too: --from {}", last_of_path(one)));
    nlohmann::json further = parse_config(*found, &table).tree->root;
    merge_bases(further, found->name, table, depth + 1);
    base.merge_patch(further);
  }
  root.erase(key);
  base.merge_patch(root);
  root = std::move(base);
}

std::optional<ConfigFile> GivenFiles::take_below(const std::string& script, const LaunchPart& part,
                                                 const KeyTable* table, std::vector<std::string>& notes) {
  if (part.config.empty()) {
    const auto same = std::find_if(files_.begin(), files_.end(), [&](const auto& f) { return is_file_of(f, table); });
    return same == files_.end() ? std::nullopt : take_named(same->name);
  }
  if (auto found = take_or_find(part.config, script)) return found;
  if (const ShippedFile* shipped = find_shipped_file(part.table + " file", part.config)) {
    notes.push_back(fmt::format("{} names {}, which is not there: taken as it is shipped ({})", script, part.config,
                                shipped->source));
    return ConfigFile{part.config, shipped->text};
  }
  throw InputError(fmt::format("{}:{}", script, part.config_line),
                   fmt::format("names {}, which is not there", part.config),
                   fmt::format("give it too: --from {}", last_of_path(part.config)));
}

}  // namespace gpuplan
