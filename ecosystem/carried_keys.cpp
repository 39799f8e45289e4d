#include "ecosystem/carried_keys.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/names.h"
#include "ecosystem/shared_words.h"

namespace gpuplan {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 2> kDataFacts{"data_sets", "data_folder"};
constexpr std::array<std::string_view, 9> kOtherFacts{"max_samples", "epoch_steps",      "max_steps",
                                                      "max_rounds",  "evaluates",        "held_out",
                                                      "best_at_end", "saves_model_only", "resumes"};

template <std::size_t N>
bool is_among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// A plan is a file that people share.
bool is_secret(const std::string& key) {
  constexpr std::array<std::string_view, 5> kWords{"hub_token", "api_key", "secret", "password", "access_token"};
  const std::string name = to_lower(key);
  return std::ranges::any_of(kWords, [&](std::string_view word) { return name.find(word) != std::string::npos; });
}

json without_secrets(const json& value) {
  if (!value.is_object()) return value;
  json out = json::object();
  for (const auto& [key, inner] : value.items())
    if (!is_secret(key)) out[key] = without_secrets(inner);
  return out;
}

bool is_of_data(const KeyRow* row, const std::string& path) {
  return (row && row->field && is_among(kDataFacts, row->field->name)) || path.starts_with("dataset");
}

/// Says whether the keys of a mapping set up FSDP: they are written where the plan has it.
bool is_of_engine(const KeyTable& table, const std::string& mapping) {
  return std::ranges::any_of(table.rows, [&](const KeyRow& row) {
    return row.key.starts_with(mapping + ".") && row.field && row.field->name.starts_with("fsdp_");
  });
}

/// Items of a list that switch on what the plan decides: a plugin.
bool is_decided_item(const KeyTable& table, const std::string& list, const OrderedJson& item) {
  return item.is_string() && std::ranges::any_of(table.rows, [&](const KeyRow& row) {
           return row.needs_item.first == list && row.needs_item.second == item.get<std::string>();
         });
}

/// PyYAML reads 1e-4 as a text, which programs that take texts for numbers do not need in quotes.
OrderedJson as_written(const KeyTable& table, const std::string& path, const json& value) {
  if (!value.is_string() || !table.takes_texts_for_numbers(path)) return OrderedJson::parse(value.dump());
  const std::string& text = value.get_ref<const std::string&>();
  const auto number = as_number(text);
  return number && text.find_first_of("eE") != std::string::npos ? OrderedJson(*number) : OrderedJson(text);
}

/// Keeps the carried items of a list that the plan does not decide, and adds those that it writes.
OrderedJson merged_list(const KeyTable& table, const std::string& path, const json& carried,
                        const OrderedJson& written) {
  OrderedJson out = OrderedJson::array();
  for (const json& item : carried)
    if (!is_decided_item(table, path, item)) out.push_back(as_written(table, path, item));
  for (const OrderedJson& item : written)
    if (std::ranges::find(out, item) == out.end()) out.push_back(item);
  return out;
}

bool is_length(const KeyRow* row) {
  return row && row->use == KeyUse::Used && row->field && row->field->name == "seq_len";
}

/// 0: there is none.
std::int64_t find_length(const json& settings, const KeyTable& table, const std::string& above) {
  std::int64_t tokens = 0;
  for (const auto& [key, value] : settings.items()) {
    const std::string path = above.empty() ? key : above + "." + key;
    if (value.is_object()) tokens = std::max(tokens, find_length(value, table, path));
    if (value.is_number_integer() && is_length(table.find(path))) tokens = std::max(tokens, value.get<std::int64_t>());
  }
  return tokens;
}

void erase_length(json& settings, const KeyTable& table, const std::string& above) {
  for (auto at = settings.begin(); at != settings.end();) {
    const std::string path = above.empty() ? at.key() : above + "." + at.key();
    if (at.value().is_object()) erase_length(at.value(), table, path);
    at = is_length(table.find(path)) ? settings.erase(at) : std::next(at);
  }
}

void relocate(json& value, const std::function<std::optional<std::string>(const std::string&)>& relocated) {
  if (value.is_structured()) {
    for (json& inner : value) relocate(inner, relocated);
  } else if (value.is_string()) {
    if (auto path = relocated(value.get_ref<const std::string&>())) value = std::move(*path);
  }
}

bool is_of_one_table(const KeyTable& from, const KeyTable& to, const std::string& key) {
  const KeyRow *const one = from.find(key), *const other = to.find(key);
  return one && other && one->table == other->table && !is_of_data(one, key);
}

/// A text that is a number, as one program takes it and another may not.
json as_plain_number(const json& value) {
  const auto number = value.is_string() ? as_number(value.get_ref<const std::string&>()) : std::nullopt;
  return number ? json(*number) : value;
}

/// Takes "a.b.c" away, and the mappings that hold nothing else.
void erase_at(json& settings, const std::string& path) {
  const std::size_t dot = path.find('.');
  const std::string key = path.substr(0, dot);
  if (dot != std::string::npos) erase_at(settings[key], path.substr(dot + 1));
  if (dot == std::string::npos || settings[key].empty()) settings.erase(key);
}

/// Says whether the user's value of a setting that other trainers have too counts where the plan says that there is
/// one: the weight of a loss.
bool is_own_weight(const KeyTable& table, const std::string& path, const json& value, const OrderedJson& file,
                   const std::string& key) {
  if (!is_shared_word(table, path) || !as_plain_number(value).is_number() || as_plain_number(value) == 0) return false;
  return !file.contains(key) || file[key] != 0;
}

/// Says whether two values of a key are two words for one fact.
bool mean_the_same(const KeyRow& row, const json& one, const json& other) {
  const KeyRow::Value *const a = row.find_value(one), *const b = row.find_value(other);
  return a && b && !a->second.is_null() && a->second == b->second;
}

/// Says whether a value of a key that the plan decides states nothing of it: a name of a loss, where others say how the
/// loss is computed, or what the plan leaves open.
bool states_no_own(const KeyRow& row, const json& value, const Setup& decided) {
  const KeyRow::Value* const known = row.find_value(value);
  if (known && !value.is_null() && has_other_words(row) && !is_stated(decided, *row.field)) return true;
  return known && !value.is_null() && (known->second.is_null() || known->second.is_object());
}

void put_below(OrderedJson& file, const json& carried, const KeyTable& table, bool replaces_data, const Setup& decided,
               const std::string& above) {
  for (const auto& [key, value] : carried.items()) {
    const std::string path = above.empty() ? key : above + "." + key;
    const KeyRow* const row = table.find(path);
    if (replaces_data && is_of_data(row, path)) continue;
    if (row && row->use != KeyUse::Ignored && !is_kept_as_written(*row)) {  // the plan decides it
      const bool is_kept =
          is_own_weight(table, path, value, file, key) ||
          (file.contains(key) ? mean_the_same(*row, value, json(file[key])) : states_no_own(*row, value, decided));
      if (is_kept) file[key] = as_written(table, path, value);
      continue;
    }
    const bool is_list = std::ranges::any_of(table.rows, [&](const KeyRow& r) { return r.needs_item.first == path; });
    if (is_list && value.is_array()) {
      OrderedJson list = merged_list(table, path, value, file.contains(key) ? file[key] : OrderedJson::array());
      if (!list.empty()) file[key] = std::move(list);
    } else if (!value.is_object() || !table.has_below(path)) {
      file[key] = as_written(table, path, value);
    } else if (!is_of_engine(table, path) || file.contains(key)) {
      OrderedJson inner = file.contains(key) && file[key].is_object() ? file[key] : OrderedJson::object();
      put_below(inner, value, table, replaces_data, decided, path);
      if (!inner.empty()) file[key] = std::move(inner);
    }
  }
}

}  // namespace

bool is_kept_as_written(const KeyRow& row) {
  if (row.use != KeyUse::Used || !row.field) return false;
  const std::string_view fact = row.field->name;
  // a method that the program itself names and defaults, of which several are planned alike
  const bool is_own_method =
      !row.is_written && ((fact == "objective" && !row.otherwise.is_null()) || fact == "policy_loss");
  return is_among(kDataFacts, fact) || is_among(kOtherFacts, fact) || is_own_method;
}

bool has_other_words(const KeyRow& row) {
  return row.use == KeyUse::Used && row.is_written && row.num_written < row.values.size();
}

void carry(json& carried, const std::string& path, const json& value) {
  const std::vector<std::string> keys = split(path, '.');
  if (value.is_null() || std::ranges::any_of(keys, is_secret)) return;
  json* at = &carried;
  for (const std::string& key : keys) {
    if (!at->is_null() && !at->is_object()) return;  // a key with a dot in its name beside its beginning
    at = &(*at)[key];
  }
  *at = without_secrets(value);
}

CarriedSettings with_length(CarriedSettings carried, const std::string& key, std::int64_t tokens) {
  carry(carried.settings, key, tokens);
  return carried;
}

std::int64_t length_of(const CarriedSettings& carried) {
  const KeyTable* const table = find_key_table(carried.trainer);
  return table ? find_length(carried.settings, *table, "") : 0;
}

CarriedSettings without_length(CarriedSettings carried) {
  if (const KeyTable* table = find_key_table(carried.trainer)) erase_length(carried.settings, *table, "");
  return carried;
}

CarriedSettings with_paths(CarriedSettings carried,
                           const std::function<std::optional<std::string>(const std::string&)>& relocated) {
  relocate(carried.settings, relocated);
  return carried;
}

void put_carried(OrderedJson& file, const json& carried, const KeyTable& table, bool replaces_data,
                 const Setup& decided) {
  put_below(file, carried, table, replaces_data, decided, "");
}

SharedSettings shared_settings(const json& settings, const KeyTable& from, const KeyTable& to,
                               std::string_view method) {
  SharedSettings out;
  for (const auto& [key, value] : settings.items())
    (is_of_one_table(from, to, key) ? out.shared : out.rest)[key] = value;
  for (const SharedWord& word : shared_words()) {
    const std::string own = word.is_of(method) && word.holds_in(settings) ? word.key_in(to) : "",
                      its = own.empty() ? "" : word.key_in(from);
    const json* const value = its.empty() ? nullptr : value_at(out.rest, its);
    if (!value || value->is_structured()) continue;
    carry(out.shared, own, as_plain_number(*value));
    erase_at(out.rest, its);
  }
  return out;
}

bool knows_setting(const KeyTable& from, const KeyTable& to, const std::string& key, std::string_view method) {
  return is_of_one_table(from, to, key) || std::ranges::any_of(shared_words(), [&](const SharedWord& word) {
           return word.is_of(method) && word.key_in(to) == key && !word.key_in(from).empty();
         });
}

std::string names_of_carried(const json& carried) {
  std::string out;
  for (const auto& [key, value] : carried.items()) out += (out.empty() ? "" : ", ") + key;
  return out;
}

}  // namespace gpuplan
