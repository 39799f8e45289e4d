#include "mend/stated_facts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/names.h"
#include "ecosystem/launcher.h"
#include "ecosystem/notebook.h"
#include "ecosystem/python_launch.h"
#include "mend/python_text.h"
#include "mend/script_text.h"
#include "mend/settings_text.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr std::array kRoles{FileRole::Trainer, FileRole::Engine, FileRole::Launcher, FileRole::Adapter};

std::string shown(const json& value) {
  if (value.is_null()) return "";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// The row of a key, which may leave the prefix of its mapping out.
const KeyRow* row_of(const KeyTable& table, const std::string& key) {
  if (const KeyRow* row = table.find(key)) return row;
  for (const auto& [mapping, prefix] : table.prefixes) {
    if (!key.starts_with(mapping + ".")) continue;
    const std::string name = key.substr(mapping.size() + 1);
    const std::string bare = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
    for (const std::string& other : {mapping + "." + prefix + bare, mapping + "." + bare})
      if (const KeyRow* row = table.find(other)) return row;
  }
  return nullptr;
}

/// The value by which a row states nothing; nothing: it has none.
std::optional<json> silent_value(const KeyRow& row) {
  for (const auto& [in_file, means] : row.values)
    if (means.is_null() || means == "none" || means == false) return in_file;
  return std::nullopt;
}

/// A whole number without a decimal point, as people write it.
json plain_number(const json& value) {
  if (!value.is_number_float()) return value;
  const double number = value.get<double>();
  constexpr double kExact = 1e15;
  return number == std::floor(number) && std::abs(number) < kExact ? json(std::int64_t(number)) : value;
}

class Mender {
 public:
  Mender(const std::vector<ConfigFile>& given, const std::vector<SettingsPart>& parts) : given_(given), parts_(parts) {}

  MendedFiles mend(const std::vector<WantedFact>& wanted) {
    for (const WantedFact& fact : wanted)
      if (!state(fact)) return std::move(out_);
    for (auto& [name, text] : settings_) add(name, text.text());
    for (auto& [name, text] : scripts_) add(name, text.text());
    for (auto& [name, text] : pythons_) add(name, text.text());
    return std::move(out_);
  }

 private:
  const ConfigFile* find_given(const std::string& name) const {
    const auto found = std::ranges::find_if(given_, [&](const ConfigFile& file) { return file.name == name; });
    return found == given_.end() ? nullptr : &*found;
  }

  void add(const std::string& name, const std::string& after) {
    const std::string& before = find_given(name)->text;
    if (after != before) out_.files.push_back({name, before, after});
  }

  bool fail(const std::string& why) {
    out_.why_not = why;
    return false;
  }

  /// Not a file that the trainer ships, which nobody gave.
  bool is_given(const SettingsPart& part) const { return find_given(part.file) || !part.script.empty(); }

  bool state(const WantedFact& fact) {
    bool is_stated = false;
    for (const SettingsPart& part : parts_) {
      const auto key = part.keys_of.find(std::string(fact.name));
      if (key == part.keys_of.end()) continue;
      if (!change(part, key->second, fact)) return false;
      is_stated = true;
    }
    if (is_stated || fact.value.is_null()) return true;
    for (const FileRole role : kRoles)
      for (const SettingsPart& part : parts_)
        if (part.table->role == role && is_given(part) && insert(part, fact)) return true;
    return true;  // whether it was needed shows where the files are read again
  }

  /// A key that states the fact states it otherwise.
  bool change(const SettingsPart& part, const std::string& key, const WantedFact& fact) {
    const KeyRow* row = row_of(*part.table, key);
    if (!row) return fail(fmt::format("{} says it in a place of its own", key));
    json value;
    if (fact.value.is_null()) {
      const auto silent = silent_value(*row);
      if (!silent) return clear(part, key);
      value = *silent;
    } else {
      value = json(value_in_file(*row, fact.value));
      if (value.is_null()) return replace_key(part, key, *row, fact);
    }
    return put(part, key, value, *row);
  }

  /// The key has no word for it: it is switched off, and another key of the format states the fact.
  bool replace_key(const SettingsPart& part, const std::string& key, const KeyRow& row, const WantedFact& fact) {
    const auto silent = silent_value(row);
    if (silent ? !put(part, key, *silent, row) : !clear(part, key)) return false;
    if (insert(part, fact)) return true;
    return fail(fmt::format("{} has no word for {} {}", part.table->title, fact.name, shown(fact.value)));
  }

  /// Says whether a command spells its flags as the key is spelt: with dots, as newer releases of some programs, or
  /// without. Files say whatever is written.
  static bool is_spelt_alike(const SettingsPart& part, const std::string& key) {
    if (!part.file.empty() || part.keys_of.empty()) return true;
    const auto has_dot = [](const std::string& text) { return text.find('.') != std::string::npos; };
    return has_dot(key) ==
           std::ranges::any_of(part.keys_of, [&](const auto& stated) { return has_dot(stated.second); });
  }

  /// Says whether a command has flags of the key's section: programs of one table may name theirs otherwise.
  static bool has_section(const SettingsPart& part, const std::string& key) {
    const std::string section = key.substr(0, key.find('.') + 1);
    return std::ranges::any_of(part.flags, [&](const LaunchFlag& flag) { return flag.name.starts_with(section); });
  }

  /// Lists the rows that state the fact, those that are spelt as the command's other flags in front of those that are
  /// written elsewhere, and of them those of a section that the command has.
  static std::vector<const KeyRow*> rows_for(const SettingsPart& part, const WantedFact& fact) {
    std::vector<const KeyRow*> alike, written;
    for (const KeyRow& row : part.table->rows) {
      if (!row.field || row.field->name != fact.name) continue;
      const bool is_written = is_written_for(row, {});
      if (is_written) written.push_back(&row);
      if (is_spelt_alike(part, row.key) && (is_written || part.file.empty())) alike.push_back(&row);
    }
    std::ranges::stable_partition(alike, [&](const KeyRow* row) { return has_section(part, row->key); });
    alike.insert(alike.end(), written.begin(), written.end());
    return alike;
  }

  bool insert(const SettingsPart& part, const WantedFact& fact) {
    for (const KeyRow* const known : rows_for(part, fact)) {
      const KeyRow& row = *known;
      if (const SettingsText* text = settings(part); text && !has_effect(row, text->root())) continue;
      const json value = json(value_in_file(row, fact.value));
      if (!value.is_null()) return put(part, row.key, value, row);
    }
    return false;
  }

  /// Says where the part's keys stand: its own file, unless a flag stands over it or there is none.
  bool has_flag(const SettingsPart& part, const std::string& key) const {
    return part.file.empty() || flag_for(part, key) != nullptr;
  }

  SettingsText* settings(const SettingsPart& part) {
    const ConfigFile* file = find_given(part.file);
    if (!file) return nullptr;
    const auto known = settings_.find(part.file);
    if (known != settings_.end()) return &known->second;
    return &settings_.try_emplace(part.file, *file, *part.table).first->second;
  }

  ScriptText* script(const SettingsPart& part) {
    const ConfigFile* file = find_given(part.script);
    if (!file || !is_launch_script(*file)) return nullptr;
    return &scripts_.try_emplace(part.script, *file).first->second;
  }

  /// The Python script of a part; nullptr: it is none.
  PythonText* python(const SettingsPart& part) {
    const ConfigFile* file = find_given(part.script);
    if (!file || !is_python_script(*file)) return nullptr;
    const auto known = pythons_.find(part.script);
    if (known != pythons_.end()) return &known->second;
    const ConfigFile source{file->name, is_notebook(part) ? code_of_notebook(file->text, file->name) : file->text};
    return &pythons_.try_emplace(part.script, source, part.table->name).first->second;
  }

  static bool is_notebook(const SettingsPart& part) { return to_lower(part.script).ends_with(".ipynb"); }

  bool put_in_python(PythonText& text, const SettingsPart& part, const std::string& key, const json& value) {
    const LaunchFlag* flag = flag_for(part, key);
    const std::string before = flag && !flag->values.empty() ? flag->values[0].text : "";
    const OrderedJson then(value);
    if (!is_notebook(part) && (value.is_null() ? text.clear(part, key) : text.put(part, key, then))) {
      note(part.script, text.keyword_for(key),
           before.empty()
               ? json()
               : json(python_word(OrderedJson::accept(before) ? OrderedJson::parse(before) : OrderedJson(before))),
           python_word(then));
      return true;
    }
    return fail(fmt::format("to be typed into {}: {}", part.script, text.to_type(key, then)));
  }

  /// Gives what stands now of a key, in its file or as a flag; null: nothing.
  json value_now(const SettingsPart& part, const std::string& key) {
    if (const auto changed = put_.find(place_of(part, key)); changed != put_.end()) return changed->second;
    if (const LaunchFlag* const flag = flag_for(part, key))
      return flag->values.empty() ? json(true) : json(flag->values[0].text);
    const SettingsText* const text = part.file.empty() ? nullptr : settings(part);
    return text ? text->value_of(key) : json();
  }

  static std::string place_of(const SettingsPart& part, const std::string& key) {
    return part.file + "\n" + part.script + "\n" + key;
  }

  static bool is_on(const json& value) {
    return !value.is_null() && value != false && !(value.is_string() && to_lower(value.get<std::string>()) == "false");
  }

  /// Keys without which a row has no effect get a value with which it has, where that says nothing else.
  bool put_needed(const SettingsPart& part, const json& value, const KeyRow& row) {
    if (!is_on(value)) return true;
    if (!row.needs.empty() &&
        std::ranges::none_of(row.needs, [&](const std::string& key) { return is_on(value_now(part, key)); })) {
      const KeyRow* const other = row_of(*part.table, row.needs.front());
      const bool is_switch = other && (other->use == KeyUse::Ignored || other->takes_flags());
      if (is_switch && !put(part, row.needs.front(), true, *other)) return false;
    }
    for (const auto& [beside, its] : row.beside)
      if (const KeyRow* const known = row_of(*part.table, beside);
          known && value_now(part, beside) != its && !put(part, beside, its, *known))
        return false;
    const auto& [key, values] = row.only_with;
    const KeyRow* const other = key.empty() ? nullptr : row_of(*part.table, key);
    if (!other) return true;
    const json now = value_now(part, key);
    if (std::ranges::find(values, now) != values.end()) return true;
    const auto meaning_of = [&](const json& in_file) {
      const KeyRow::Value* const known = other->find_value(in_file);
      return in_file.is_null() ? other->otherwise : known ? known->second : in_file;
    };
    for (const json& with : values)
      if (!with.is_null() && meaning_of(with) == meaning_of(now)) return put(part, key, with, *other);
    return true;
  }

  /// A key changes once: two facts that want the same of it are one change.
  bool put(const SettingsPart& part, const std::string& key, const json& given, const KeyRow& row) {
    const json value = plain_number(given);
    if (!put_needed(part, value, row)) return false;
    const auto [put_before, is_first] = put_.try_emplace(place_of(part, key), value);
    if (!is_first)
      return put_before->second == value ||
             fail(fmt::format("{} would have to be {} and {}", key, shown(put_before->second), shown(value)));
    if (!has_flag(part, key))
      if (SettingsText* text = settings(part)) {
        note(part.file, key, text->value_of(key), value);
        if (!row.needs_item.first.empty() && value != false) {
          note(part.file, row.needs_item.first, {}, row.needs_item.second);
          if (!text->append(row.needs_item.first, row.needs_item.second)) return fail_at(row.needs_item.first);
        }
        return text->put(key, OrderedJson(value)) || fail_at(key);
      }
    if (part.script.empty()) return fail(fmt::format("{} is in {}: give it too", key, part.file));
    if (PythonText* source = python(part)) return put_in_python(*source, part, key, value);
    ScriptText* text = script(part);
    if (!text) return fail(fmt::format("{} is in {}: give it too", key, part.script));
    const LaunchFlag* flag = flag_for(part, key);
    note(part.script, key, flag && !flag->values.empty() ? json(flag->values[0].text) : json(), value);
    if (text->put(part, key, OrderedJson(value))) return true;
    if (flag || key == "starts") return fail_at(key);
    if (!part.file.empty()) return fail(fmt::format("{} is in {}: give it too", key, part.file));
    return fail(
        fmt::format("{} is said nowhere, and the command of {} has no place for it: add it there", key, part.script));
  }

  bool clear(const SettingsPart& part, const std::string& key) {
    if (!has_flag(part, key))
      if (SettingsText* text = settings(part)) {
        note(part.file, key, text->value_of(key), {});
        return text->clear(key) || fail_at(key);
      }
    if (PythonText* source = part.script.empty() ? nullptr : python(part))
      return put_in_python(*source, part, key, nullptr);
    ScriptText* text = part.script.empty() ? nullptr : script(part);
    if (!text) return fail(fmt::format("{} is in {}: give it too", key, part.file.empty() ? part.script : part.file));
    note(part.script, key, true, {});
    if (text->clear(part, key)) return true;
    return has_flag(part, key) ? fail_at(key) : fail(fmt::format("{} is in {}: give it too", key, part.file));
  }

  bool fail_at(const std::string& key) {
    if (key == "starts") return fail("the command that starts the training cannot be changed to another launcher");
    return fail(
        fmt::format("the place of {} cannot be changed: an anchor, a value over several lines or a variable", key));
  }

  void note(const std::string& file, const std::string& key, const json& before, const json& after) {
    KeyChange change{file, key, shown(before), shown(after)};
    const auto known =
        std::ranges::find_if(out_.keys, [&](const KeyChange& other) { return other.file == file && other.key == key; });
    if (known == out_.keys.end()) {
      if (change.before != change.after) out_.keys.push_back(std::move(change));
    } else if (known->after = change.after; known->before == known->after) {  // what is put last counts
      out_.keys.erase(known);
    }
  }

  const std::vector<ConfigFile>& given_;
  const std::vector<SettingsPart>& parts_;
  std::map<std::string, json> put_;  // values of keys that change, by place_of()
  std::map<std::string, SettingsText> settings_;
  std::map<std::string, ScriptText> scripts_;
  std::map<std::string, PythonText> pythons_;
  MendedFiles out_;
};

}  // namespace

MendedFiles state_facts(const std::vector<ConfigFile>& given, const std::vector<SettingsPart>& parts,
                        const std::vector<WantedFact>& wanted) {
  return Mender(given, parts).mend(wanted);
}

}  // namespace gpuplan
