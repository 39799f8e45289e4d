#include "ecosystem/key_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/edit_distance.h"
#include "base/error.h"
#include "base/names.h"
#include "base/value_tree.h"
#include "ecosystem/carried_keys.h"
#include "ecosystem/given_files.h"
#include "ecosystem/meaning.h"
#include "ecosystem/methods.h"
#include "ecosystem/shared_words.h"
#include "models/training_method.h"

namespace gpuplan {
namespace {

using nlohmann::json;

/// "q_proj,v_proj" and "full_shard auto_wrap" as lists.
json words_of_list(const json& text) {
  json words = json::array();
  for (const std::string& part : split(text.get<std::string>(), ','))
    for (const std::string& word : split(std::string(trim(part)), ' '))
      if (!word.empty()) words.push_back(word);
  return words;
}

void add_words(json& words, const json& value) {
  if (value.is_string()) words.push_back(value);
  if (value.is_array())
    for (const json& item : value) add_words(words, item);
  if (value.is_object() && value.contains("train")) add_words(words, value["train"]);  // files by their split
}

/// The text of a mapping that counts; files, where it names nothing but how they are read: {path: json, data_files: a}.
void add_words_of(json& words, const KeyRow& row, const json& mapping) {
  if (!mapping.contains(row.each) || !mapping[row.each].is_string()) return;
  for (const auto& [text, key] : row.each_instead)
    if (mapping[row.each] == text && mapping.contains(key)) return add_words(words, mapping[key]);
  std::string word = mapping[row.each];
  if (!row.each_split.empty() && mapping.contains(row.each_split) && mapping[row.each_split].is_string())
    word += "@" + mapping[row.each_split].get<std::string>();
  const json share = row.each_share.empty() ? json() : mapping.value(row.each_share, json());
  if (share.is_number() && share != 1) word += fmt::format("#{:g}%", 100 * share.get<double>());
  words.push_back(word);
}

constexpr std::string_view kEachKey = "*";  // of `each`: the mapping's keys count

/// Sets that are the keys of a mapping, each with the share that is taken of every split for training:
/// {name: 0.5} is [name@train#50%].
json words_of_shares(const KeyRow& row, const json& shares, const json& beside) {
  json words = json::array();
  std::vector<std::string> splits;
  for (const json& split : beside.value(row.each_split, json::array()))
    if (split.is_string() && split.get<std::string>().find("train") != std::string::npos)
      splits.push_back("@" + split.get<std::string>());
  if (splits.empty()) splits.emplace_back();
  for (const auto& [name, share] : shares.items())
    for (const std::string& split : splits)
      words.push_back(name + split +
                      (share.is_number() && share != 1 ? fmt::format("#{:g}%", 100 * share.get<double>()) : ""));
  return words;
}

/// The words of a list, each in the vocabulary of the row: [all] is [all-linear] where "all" is.
json words_of(const KeyRow& row, const json& list) {
  json words = json::array();
  for (const json& item : list) {
    if (!row.each.empty() && item.is_object()) {
      add_words_of(words, row, item);
      continue;
    }
    const KeyRow::Value* known = row.find_value(item);
    if (!known)
      words.push_back(item);
    else if (!known->second.is_null())
      words.insert(words.end(), known->second.begin(), known->second.end());
  }
  return words;
}

/// "8", "1e-4" as the number that Python's int and float read; nothing for other texts.
std::optional<json> number_of_text(const std::string& text) {
  std::string digits(trim(text));
  std::erase(digits, '_');  // Python's 10_000
  std::int64_t whole = 0;
  double number = 0;
  const char* const end = digits.data() + digits.size();
  if (const auto read = std::from_chars(digits.data(), end, whole); read.ec == std::errc{} && read.ptr == end)
    return whole;
  if (const auto read = std::from_chars(digits.data(), end, number);
      read.ec == std::errc{} && read.ptr == end && std::isfinite(number))
    return number;
  return std::nullopt;
}

std::string text_of(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

/// Reads the keys of one file.
class KeyReader {
 public:
  KeyReader(ReadFile& out, const ParsedConfig& parsed, std::vector<std::string>& notes, std::string objective)
      : out_(out),
        objective_(std::move(objective)),
        table_(*out.table),
        tree_(*parsed.tree),
        may_differ_(table_.own_scripts && !parsed.is_program),
        is_own_(may_differ_ && !parsed.is_guess),
        stops_at_unknown_(table_.refuses_unknown && !parsed.is_guess && !is_own_),
        is_guess_(parsed.is_guess || is_own_),
        notes_(notes) {}

  void read() {
    const std::string said = said_objective();
    const auto method = find_foreign_method(table_.name, tree_.root, said);
    if (method && !method->objective.empty() && (said.empty() || is_of(said, *method)))
      take_method(*method, said.empty());
    else if (method && !is_planned_with(said, *method))
      fail(method->keys.front(),
           fmt::format("belongs to {}, {}: {}", method->name,
                       method->is_open && may_be_planned(*method) ? "and nothing says which" : "which is not modelled",
                       method->why),
           may_be_planned(*method)
               ? "--method NAME says which one it is (estimate --help lists them)"
               : fmt::format("{}: to plan one of them, leave out {}", kPlannedMethods, fmt::join(method->keys, ", ")));
    for (const ValueTree::Problem& key : tree_.repeated)
      notes_.push_back(fmt::format("{}:{}: {} comes twice: the last value counts, as {} reads it", tree_.file, key.line,
                                   key.key, table_.title));
    read_mapping(tree_.root, "");
    for (const KeyRow& row : table_.rows)
      if (!row.with_item.is_null() && has_item(row) && !value_at(tree_.root, row.key))
        read_row(row, row.key, row.with_item);
    for (const KeyRow& row : table_.rows)
      if (lacks_needs(row)) out_.idle.push_back(&row);
    for (const auto& [reason, keys] : ignored_)
      notes_.push_back(fmt::format("{}: not counted, because {}: {}", tree_.file, reason, fmt::join(keys, ", ")));
    if (!own_.empty())
      out_.mistyped.push_back(fmt::format("{}: no {} of {}: of a script of one's own, and not counted: {}", tree_.file,
                                          own_.size() == 1 ? "key" : "keys", table_.title, fmt::join(own_, ", ")));
    if (!unknown_.empty())
      notes_.push_back(
          fmt::format("{}: not known to gpuplan and not counted: {}", tree_.file, fmt::join(unknown_, ", ")));
  }

 private:
  [[noreturn]] void fail(const std::string& key, const std::string& problem, const std::string& hint) const {
    const auto place = tree_.places.find(key);
    const bool is_known = place != tree_.places.end();
    const std::string line = is_known ? fmt::format(":{}", place->second.key_line) : "";
    const std::string& file = is_known && !place->second.file.empty() ? place->second.file : tree_.file;
    throw InputError(fmt::format("{}{}: {}", file, line, key), problem, hint);
  }

  /// The method that a flag says beside the file, that a key of the table states, or the program that was started;
  /// empty: none.
  std::string said_objective() const {
    if (!objective_.empty()) return objective_;
    for (const KeyRow& row : table_.rows) {
      if (!row.field || row.field->name != "objective" || !tree_.root.contains(row.key)) continue;
      const KeyRow::Value* known = row.find_value(tree_.root.at(row.key));
      if (known && known->second.is_string()) return known->second.get<std::string>();
    }
    return {};
  }

  /// Facts that mean something to methods that generate alone.
  static bool is_of_generation(std::string_view fact) {
    constexpr std::array<std::string_view, 15> kFacts{
        "engine",    "engine_place",    "engine_utilisation",   "engine_sleeps",    "engine_offloads",
        "engine_tp", "generations",     "completion_len",       "iterations",       "regularises",
        "old_batch", "reference_batch", "steps_per_generation", "generation_batch", "engine_offloads_states"};
    return std::ranges::find(kFacts, fact) != kFacts.end();
  }

  /// Says whether a method that is said has the keys of the sign: its own, or those of another one that generates.
  static bool is_of(const std::string& said, const ForeignSign& sign) {
    return said == sign.objective ||
           (find_training_method(said).generates && find_training_method(sign.objective).generates);
  }

  /// Says whether every key of the sign is one that the table knows, under a method that is planned.
  bool is_planned_with(const std::string& said, const ForeignSign& sign) const {
    const TrainingMethod& method = find_training_method(said.empty() ? training_methods().front().name : said);
    const bool generates = method.generates || method.distils;
    return !said.empty() && std::ranges::all_of(sign.keys, [&](const std::string& key) {
      const KeyRow* const row = table_.find(as_in_table(key));
      return row && (generates || !row->field || !is_of_generation(row->field->name));
    });
  }

  bool may_be_planned(const ForeignSign& sign) const {
    return sign.objective.empty() && std::ranges::any_of(training_methods(), [&](const TrainingMethod& method) {
             return is_planned_with(method.name, sign);
           });
  }

  /// Keys of a method that is planned: those without a row change nothing that is counted.
  void take_method(const ForeignSign& method, bool is_stated_by_keys) {
    if (is_stated_by_keys) {
      state_fact(*find_setup_field("objective"), method.keys.front(), method.objective);
      if (!method.others.empty())
        notes_.push_back(fmt::format("{}: {} is of {} and of {}: read as {}; --method names another one", tree_.file,
                                     method.keys.front(), method.name, fmt::join(method.others, ", "), method.name));
    }
    const TrainingMethod& planned = find_training_method(method.objective);
    const bool generates = planned.generates || planned.distils;  // a student may answer
    for (const auto& [key, value] : tree_.root.items()) {
      const bool is_own = std::ranges::find(method.keys, key) != method.keys.end();
      if (!table_.find(as_in_table(key)) && !table_.has_below(key) && (is_own || (generates && is_of_kin(key))))
        ignored_[fmt::format("of {}, and it changes neither memory nor the time of a step", method.name)].push_back(
            key);
    }
  }

  /// Says whether another method that generates has the key: their settings are much alike, and the table has those
  /// that count.
  bool is_of_kin(const std::string& key) const {
    return std::ranges::any_of(foreign_jobs(), [&](const ForeignJob& job) {
      return !job.objective.empty() && find_training_method(job.objective).generates && job.has_key(key) &&
             std::ranges::find(job.formats, table_.name) != job.formats.end();
    });
  }

  /// The key as the table spells it: a mapping's own prefix may be left out; one without a prefix holds keys of the
  /// table.
  std::string as_in_table(const std::string& path) const {
    if (table_.find(path) || table_.has_below(path)) return path;
    for (const auto& [mapping, prefix] : table_.prefixes)
      if (path.starts_with(mapping + ".")) {
        const std::string key = path.substr(mapping.size() + 1);
        const std::string bare = key.starts_with(prefix) ? key.substr(prefix.size()) : key;
        for (const std::string& other : {mapping + "." + prefix + bare, mapping + "." + bare})
          if (table_.find(other)) return other;
        if (prefix.empty() && table_.find(key)) return key;
      }
    return path;
  }

  void read_mapping(const json& mapping, const std::string& above) {
    for (const auto& [key, value] : mapping.items()) {
      const std::string path = above.empty() ? key : above + "." + key;
      const std::string known = as_in_table(path);
      const KeyRow* row = table_.find(known);
      if (row && names_engine(*row) && holds_settings(value))
        read_engine(*row, path, value);
      else if (row && row->each == kEachKey && value.is_object())
        read_row(*row, path, words_of_shares(*row, value, mapping));
      else if (row && (row->use != KeyUse::Used || !value.is_object()) && !(value.is_object() && has_own_below(known)))
        read_row(*row, path, value);
      else if (value.is_object() && table_.has_below(known))
        read_mapping(value, path);
      else if (!row && is_list_of_mappings(value) && table_.has_below(known))
        read_list(value, path);
      else if (value.is_null() || (value.is_object() && value.empty()) || names_foreign_method(table_.name, path))
        carry(out_.carried, path, value);  // says nothing of memory and time
      else
        read_unknown(path, value);
    }
  }

  static bool is_list_of_mappings(const json& value) {
    return value.is_array() && !value.empty() &&
           std::ranges::all_of(value, [](const json& item) { return item.is_object(); });
  }

  /// Several of what may be one: each says the same of what is counted, or the file is refused.
  void read_list(const json& list, const std::string& path) {
    carry(out_.carried, path, list);
    json keys = json::object();
    for (const json& item : list)
      for (const auto& [key, value] : item.items()) {
        if (keys.contains(key) && keys[key] == value) continue;
        keys[key] = value;
        read_mapping({{key, value}}, path);
      }
  }

  /// Says whether some keys of a mapping have rows of their own beside one for all of them.
  bool has_own_below(const std::string& mapping) const {
    return std::any_of(table_.rows.begin(), table_.rows.end(), [&](const KeyRow& row) {
      return row.key.starts_with(mapping + ".") && row.key != mapping + ".*";
    });
  }

  static bool names_engine(const KeyRow& row) { return row.field && row.field->name == "deepspeed_file"; }

  /// A mapping, or JSON in a text, as Trainer and ms-swift take it beside a path.
  static bool holds_settings(const json& value) {
    return value.is_object() ? !value.empty() : value.is_string() && trim(value.get<std::string>()).starts_with('{');
  }

  /// DeepSpeed's settings inside the file are read as its own file is.
  void read_engine(const KeyRow& row, const std::string& path, const json& value) {
    const std::string text = value.is_object() ? value.dump() : value.get<std::string>();
    out_.engine = ConfigFile{fmt::format("{}: {}", tree_.file, path), text};
    state_fact(*row.field, path, path);
  }

  /// Refuses a key that no table knows and that names another method, at the top or below a mapping.
  void refuse_foreign(const std::string& path, const json& value) const {
    if (value.is_object())
      for (const auto& [key, below] : value.items()) refuse_foreign(path + "." + key, below);
    const bool says_nothing =
        value.is_null() || value == false || value == "" || value == 0 || (value.is_structured() && value.empty());
    if (const std::string word = foreign_word(path); !word.empty() && !says_nothing)
      fail(path,
           fmt::format("is not known to gpuplan, and \"{}\" in it names a second model, generation or a method that is "
                       "not modelled",
                       word),
           fmt::format("{}: to plan one of them, leave it out", kPlannedMethods));
  }

  /// A flag of a script's own that speaks of adapters or of a quantised base, by its name or its value, and is not
  /// switched off: --tuner lora, --quantization 4.
  static bool speaks_of_adapters(const std::string& path, const json& value) {
    const std::string text = value.is_string() ? to_lower(value.get<std::string>()) : "";
    const bool is_off = value.is_null() || value == false || value == 0 || value == 16 || value == 32 ||
                        (value.is_string() && std::ranges::any_of(std::array{"", "none", "no", "full", "false"},
                                                                  [&](const char* word) { return text == word; }));
    const auto has = [](const std::string& in, const char* word) { return in.find(word) != std::string::npos; };
    constexpr std::array kInNames{"lora",     "dora",    "peft",       "adapter",  "load_in_", "4bit",
                                  "8bit",     "bits",    "quanti",     "tuner",    "nf4",      "galore",
                                  "low_rank", "pre_seq", "prefix_len", "p_tuning", "ptuning"};
    constexpr std::array kInValues{"lora", "dora", "peft", "nf4", "bnb", "int4", "int8", "galore"};
    const bool is_path = has(text, "/") || has(text, ".");
    return !is_off && (std::ranges::any_of(kInNames, [&](const char* word) { return has(path, word); }) ||
                       (!is_path && std::ranges::any_of(kInValues, [&](const char* word) { return has(text, word); })));
  }

  /// The row of other trainers for a key of a script of one's own that says the length, or what is trained: where they
  /// agree on it and no key of this table says it; nullptr: none.
  const KeyRow* row_elsewhere(const std::string& path, const json& value) const {
    const KeyRow* found = nullptr;
    for (const KeyTable& table : key_tables()) {
      const KeyRow* row = table.role == FileRole::Trainer && &table != &table_ ? table.find(path) : nullptr;
      if (!row) continue;
      if (row->use != KeyUse::Used || !row->field || (found && found->field != row->field)) return nullptr;
      found = row;
    }
    if (!found || value.is_object() || value.is_boolean()) return nullptr;
    const std::string_view name = found->field->name;
    if (name != "seq_len" && name != "targets" && name != "saved_modules") return nullptr;
    const bool is_said =
        std::ranges::any_of(table_.rows, [&](const KeyRow& row) { return row.field == found->field && has(row.key); });
    return is_said ? nullptr : found;
  }

  /// Says whether a key of the table says that adapters are trained, or that none are.
  bool says_adapters() const {
    return std::ranges::any_of(table_.rows, [&](const KeyRow& row) {
      return row.field && row.field->name == "adapter" && value_at(tree_.root, row.key);
    });
  }

  /// The row of a key that decides what is trained and that the unknown one is a slip of; nullptr: none.
  const KeyRow* mistyped_row(const std::string& path) const {
    const auto is_of_data = [](const KeyRow& row) { return row.field && row.field->name.starts_with("data_"); };
    const auto found = std::ranges::find_if(table_.rows, [&](const KeyRow& row) {
      return row.use == KeyUse::Used && !is_of_data(row) && is_slip(path, row.key);
    });
    return found == table_.rows.end() ? nullptr : &*found;
  }

  /// Says whether a script of one's own trains on answers, whose rewards it names as it likes.
  bool rewards_its_own() const {
    const std::string said = out_.setup.objective.value_or(said_objective());
    return is_own_ && !said.empty() && find_training_method(said).generates;
  }

  void read_unknown(const std::string& path, const json& value) {
    if (!rewards_its_own()) refuse_foreign(path, value);
    carry(out_.carried, path, value);
    const bool is_open = is_guess_ && out_.open_method.empty() && !(is_own_ && says_adapters());
    if (is_open && speaks_of_adapters(to_lower(path), value)) out_.open_method = path;
    if (const KeyRow* row = is_guess_ ? row_elsewhere(path, value) : nullptr) {
      notes_.push_back(fmt::format("{}: {} is read as other trainers take it", tree_.file, path));
      return read_row(*row, path, value);
    }
    std::vector<std::string> known;
    for (const KeyRow& row : table_.rows) known.push_back(row.key);
    const std::string hint = did_you_mean(path, known);
    if (stops_at_unknown_ && path.find('.') == std::string::npos)
      fail(path, fmt::format("unknown key: {} stops at it", table_.title), hint);
    if (is_own_ && path.find('.') == std::string::npos) {
      if (const KeyRow* meant = mistyped_row(path))
        fail(path, fmt::format("unknown key, one slip from {}, which decides what is trained", meant->key),
             fmt::format("did you mean '{}'?", meant->key));
      return own_.push_back(path);
    }
    if (!hint.empty())
      out_.mistyped.push_back(fmt::format("{}: {} is no key of {}: {}", tree_.file, path, table_.title, hint));
    unknown_.push_back(hint.empty() ? path : fmt::format("{} ({})", path, hint));
  }

  /// The value of another key that OmegaConf puts in the place of "${policy.max_total_sequence_length}"; else null.
  const json* interpolated(const json& given) const {
    if (!given.is_string()) return nullptr;
    const std::string& text = given.get_ref<const std::string&>();
    if (!text.starts_with("${") || !text.ends_with('}')) return nullptr;
    const json* const other = value_at(tree_.root, text.substr(2, text.size() - 3));
    return other && !other->is_string() ? other : nullptr;
  }

  /// 1 and 0 for true and false, "true", and a number as a text, where the program takes them: YAML and JSON have one
  /// spelling of each, argparse and pydantic have several.
  json as_program_reads(const KeyRow& row, const json& given) const {
    if (row.find_value(given)) return given;
    if (const json* const other = interpolated(given)) return as_program_reads(row, *other);
    if (given.is_number_integer() && (given == 0 || given == 1) && row.takes_flags()) return given == 1;
    if (given.is_string() && to_lower(given.get<std::string>()) == "true" && row.takes_flags()) return true;
    if (given.is_array() && row.field && std::holds_alternative<Setup::Numbers Setup::*>(row.field->member)) {
      json numbers = json::array();
      for (const json& item : given)
        numbers.push_back(item.is_string() ? number_of_text(item.get<std::string>()).value_or(item) : item);
      return numbers;
    }
    const bool is_number = row.field && (std::holds_alternative<Setup::Count Setup::*>(row.field->member) ||
                                         std::holds_alternative<Setup::Number Setup::*>(row.field->member));
    if (is_number && given.is_string() && table_.takes_texts_for_numbers(row.key))
      if (const auto number = number_of_text(given.get<std::string>())) return *number;
    return given;
  }

  /// Says whether the file has a key, with a value that says something.
  bool has(const std::string& key) const {
    const json* const found = value_at(tree_.root, key);
    const bool is_off = found && found->is_string() && to_lower(found->get<std::string>()) == "false";  // of a command
    return found && !found->is_null() && *found != false && !is_off;
  }

  /// Says whether the row needs other keys, and the file has none of them.
  bool lacks_needs(const KeyRow& row) const {
    return !row.needs.empty() && std::ranges::none_of(row.needs, [&](const auto& key) { return has(key); });
  }

  /// Says whether the list that the key depends on, if there is one, holds the item.
  bool has_item(const KeyRow& row) const {
    const auto& [list, item] = row.needs_item;
    const json* const found = list.empty() ? nullptr : value_at(tree_.root, list);
    return list.empty() || (found && found->is_array() && std::ranges::find(*found, json(item)) != found->end());
  }

  /// The key by which a value has no effect; empty: none.
  std::string yields_to(const KeyRow& row, const json& value) const {
    for (const auto& [own, others] : row.yields) {
      if (own != value) continue;
      for (const auto& [key, values] : others.items())
        if (const json* const found = value_at(tree_.root, key);
            found && std::ranges::find(values, *found) != values.end())
          return fmt::format("{}: {}", key, found->dump());
    }
    return {};
  }

  /// Stops where the program does: a switch is on and another key is not as it wants it.
  void check_demands(const KeyRow& row, const std::string& path, const json& value) const {
    if (value.is_null() || value == false) return;
    for (const KeyRow::Demand& demand : row.demands) {
      const json* const found = value_at(tree_.root, demand.key);
      const json other = found ? *found : json();
      const auto is_wanted = [&](const json& one) {
        return std::ranges::count(demand.values, one) > 0 ||
               (!one.is_null() && std::ranges::count(demand.values, "*") > 0);
      };
      if (other.is_array() ? std::ranges::all_of(other, is_wanted) : is_wanted(other)) continue;
      std::vector<std::string> wanted;
      for (const json& one : demand.values)
        if (!one.is_null() && one != "*") wanted.push_back(text_of(one));
      fail(path, demand.reason,
           wanted.empty() ? fmt::format("say {}", demand.key)
                          : fmt::format("{}: {}", demand.key, fmt::join(wanted, ", ")));
    }
  }

  void read_row(const KeyRow& row, const std::string& path, const json& given) {
    if (row.use == KeyUse::Ignored || is_kept_as_written(row) || has_other_words(row) ||
        is_shared_word(table_, row.key))
      carry(out_.carried, path, given);
    if (row.use == KeyUse::Ignored) return ignored_[row.reason].push_back(path);
    if (lacks_needs(row))
      return ignored_[fmt::format("it has no effect without {}", fmt::join(row.needs, " or "))].push_back(path);
    if (!has_effect(row, tree_.root)) {
      const json* const other = value_at(tree_.root, row.only_with.first);
      return ignored_[fmt::format("it has no effect {} {}{}", other ? "with" : "without", row.only_with.first,
                                  other ? fmt::format(": {}", other->dump()) : "")]
          .push_back(path);
    }
    const json value = as_program_reads(row, given);
    if (const std::string other = yields_to(row, value); !other.empty())
      return ignored_[fmt::format("it has no effect with {}", other)].push_back(path);
    if (!value.is_null() && value != false && !has_item(row))
      return ignored_[fmt::format("it has no effect without {} in {}", row.needs_item.second, row.needs_item.first)]
          .push_back(path);
    if (row.use == KeyUse::Refused) {
      const auto is_named = [&](const json& one) {
        return std::find(row.harmless.begin(), row.harmless.end(), one) != row.harmless.end();
      };
      const bool is_off =
          value == false && !is_named(true);  // of a switch that is harmless when on, false says something
      const bool is_harmless = value.is_null() || is_off || (value.is_structured() && value.empty()) || is_named(value);
      if (!is_harmless) fail(path, row.reason, row.rule.empty() ? "" : fmt::format("rule: {}", row.rule));
      return;
    }
    if (may_differ_ && !row.unknown.empty() && value.is_string() && !row.find_value(value) &&
        value.get_ref<const std::string&>().find('/') == std::string::npos) {  // no kernel of the Hub
      out_.mistyped.push_back(fmt::format("{}: {}: {}: {}", tree_.file, path, value.dump(), row.unknown));
      return;
    }
    check_demands(row, path, value);
    const json meant = meaning_of(row, path, value);
    if (meant.is_null()) return;
    if (!row.note.empty()) notes_.push_back(fmt::format("{}: {}: {}", tree_.file, path, row.note));
    if (!meant.is_object()) return state_fact(*row.field, path, meant);
    for (const auto& [fact, meaning] : meant.items()) state_fact(*find_setup_field(fact), path, meaning);
  }

  json meaning_of(const KeyRow& row, const std::string& path, const json& value) const {
    if (value.is_null() && row.values.empty()) return {};
    if (const KeyRow::Value* known = row.find_value(value)) return known->second;
    if (!row.any.is_null()) return value == false ? json() : row.any;
    const bool is_list = std::holds_alternative<Setup::Words Setup::*>(row.field->member);
    if (is_list && value.is_array()) return words_of(row, value);
    if (row.is_joined && value.is_string()) return words_of(row, words_of_list(value));
    const bool has_words = std::ranges::all_of(
        row.values, [](const KeyRow::Value& v) { return v.second.is_null() || v.second.is_array(); });
    if (is_list && has_words && value.is_string()) return json::array({value});  // one name, which no row translates
    if (std::all_of(row.values.begin(), row.values.end(), KeyRow::leaves_others)) return value;
    if (value.is_null()) return {};
    std::string accepted;
    for (const auto& [in_file, means] : row.values) accepted += (accepted.empty() ? "" : ", ") + text_of(in_file);
    fail(path, fmt::format("{} is not modelled", text_of(value)), fmt::format("known: {}", accepted));
  }

  void state_fact(const SetupField& field, const std::string& path, const json& meant) {
    const auto before = out_.stated_by.find(field.name);
    if (before != out_.stated_by.end()) {
      if (value_of(out_.setup, field) == meant) return;
      fail(path, fmt::format("{} says otherwise", before->second), "keep one of them");
    }
    if (const std::string wanted = state(out_.setup, field, meant); !wanted.empty())
      fail(path, fmt::format("must be {}, found {}", wanted, meant.dump()),
           meant.is_string() && wanted.find("number") != std::string::npos
               ? "a number such as 1e-4 needs a point: 1.0e-4"
               : "");
    out_.stated_by[field.name] = path;
  }

  ReadFile& out_;
  const std::string objective_;
  const KeyTable& table_;
  const ValueTree& tree_;
  const bool may_differ_;  // a script of one's own may read the keys, and do otherwise
  const bool is_own_;      // the same of a file that is surely of the table's format
  const bool stops_at_unknown_, is_guess_;
  std::vector<std::string>& notes_;
  std::map<std::string, std::vector<std::string>> ignored_;
  std::vector<std::string> unknown_, own_;
};

}  // namespace

void read_keys(ReadFile& out, const ParsedConfig& parsed, std::vector<std::string>& notes, std::string objective) {
  KeyReader(out, parsed, notes, std::move(objective)).read();
}

}  // namespace gpuplan
