#include "ecosystem/launch_rows.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/files.h"
#include "base/surroundings.h"
#include "base/value_tree.h"
#include "base/yaml_file.h"

namespace gpuplan {
namespace {

using nlohmann::json;

std::vector<std::string> texts_of(const json& row, const char* key) {
  return row.value(key, std::vector<std::string>{});
}

CommandRow command_row(const json& from) {
  CommandRow row{.name = from.at("name"), .source = from.at("source"), .why = from.value("why", "")};
  row.words = from.value("words", std::vector<std::vector<std::string>>{});
  row.scripts = texts_of(from, "scripts");
  row.modules = texts_of(from, "modules");
  row.table = from.value("table", from.value("part", ""));
  row.section = from.value("section", "");
  row.engine = from.value("engine", "");
  row.launcher = from.value("launcher", "");
  row.starts = from.value("starts", "");
  row.config = texts_of(from, "config");
  row.engine_config = texts_of(from, "engine_config");
  row.config_folder = texts_of(from, "config_folder");
  row.own_configs = texts_of(from, "own_configs");
  row.module = texts_of(from, "module");
  row.switches = texts_of(from, "switches");
  row.takes_pairs = from.value("pairs", false);
  row.says = from.value("says", std::vector<std::pair<std::string, std::string>>{});
  row.switched = from.value("switched", std::vector<std::vector<std::string>>{});
  for (const json& means : from.value("means", json::array()))
    row.means.push_back({means.at(0), means.at(1), means.at(2).is_string() ? means.at(2) : json(means.at(2).dump())});
  return row;
}

CommandRows read_rows() {
  const std::string where = (data_dir() / "ecosystem" / "launchers.yaml").string();
  const auto tree = read_yaml11(where);
  CommandRows rows;
  try {
    for (const auto& [group, to] : {std::pair{"launchers", &rows.launchers}, std::pair{"programs", &rows.programs},
                                    std::pair{"others", &rows.others}})
      for (const json& row : tree->root.at(group)) to->push_back(command_row(row));
    rows.not_starting = texts_of(tree->root, "not_starting");
    rows.decides = texts_of(tree->root, "decides");
    rows.beside = texts_of(tree->root, "beside");
    rows.absent_modules = texts_of(tree->root, "absent_modules");
  } catch (const json::exception& error) { throw InputError(where, error.what()); }
  return rows;
}

/// "dpo*.py" and "dpo_vlm.py"; one or two "*".
bool matches(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t i = star; i <= text.size(); ++i)
    if (rest.empty() || matches(rest, text.substr(i))) return true;
  return false;
}

bool is_in(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

}  // namespace

bool CommandRow::has_switch(const std::string& flag) const { return is_in(switches, flag); }
bool CommandRow::names_module(const std::string& flag) const { return is_in(module, flag); }

bool CommandRows::looks_deciding(const std::string& flag) const {
  const auto is_part = [&](const std::string& part) { return flag.find(part) != std::string::npos; };
  return std::ranges::any_of(decides, is_part) && std::ranges::none_of(beside, is_part);
}

const CommandRows& command_rows() { return read_once<read_rows>(); }

const CommandRow* find_script(std::span<const CommandRow> rows, const std::string& script, bool is_module) {
  for (const CommandRow& row : rows)
    for (const std::string& pattern : is_module ? row.modules : row.scripts)
      if (matches(pattern, script) || (!is_module && matches("*/" + pattern, script))) return &row;
  return nullptr;
}

bool is_known_by_bare_name(const CommandRow& row, const std::string& script) {
  const auto is_named = [&](const std::string& pattern) {
    return matches(pattern, script) || matches("*/" + pattern, script);
  };
  const auto is_package = [&](const std::string& pattern) {
    return pattern.find('.') != std::string::npos && matches(pattern, script);
  };
  return std::ranges::none_of(row.scripts,
                              [&](const std::string& p) { return p.find('/') != std::string::npos && is_named(p); }) &&
         std::ranges::none_of(row.modules, is_package);
}

const CommandRow* find_launcher(const std::string& name) {
  const auto& rows = command_rows().launchers;
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const CommandRow& row) { return row.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace gpuplan
