// The keys of one file format, as data/ecosystem/<format>.yaml lists them: what each means, why it is ignored, or why
// it is refused. Reading and writing use the same rows.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "ecosystem/setup.h"
#include "ecosystem/versions.h"

namespace gpuplan {

enum class KeyUse : std::uint8_t { Used, Ignored, Refused };
/// Launcher: starts processes and chooses the engine. Engine: DeepSpeed's own file. Trainer: model, method, batch.
/// Adapter: the adapter and its base model alone.
enum class FileRole : std::uint8_t { Launcher, Engine, Trainer, Adapter };

struct KeyRow {
  std::string key;    // with dots below mappings: "fsdp_config.fsdp_version"; "x.*" is all below x
  std::string table;  // whose row it is: its own, or one that is included
  KeyUse use = KeyUse::Used;
  const SetupField* field = nullptr;
  using Value = std::pair<nlohmann::json, nlohmann::json>;
  /// Pairs of a value of the file and the fact it states; null states nothing, a mapping several facts. Where all
  /// of them are "auto", null or state nothing, and where there are none, any other value of the fact's type may stand
  /// too; else others are refused. Writing takes the first that states the fact.
  std::vector<Value> values;
  std::size_t num_written = 0;  // of `values`; those behind are read only
  nlohmann::json otherwise;     // the fact where no file has the key; null: nothing follows
  std::string needed_by;        // a fact with which the program stops where no file has the key; empty: none
  std::string needed_unless;    // a key with which it does not; empty: none
  bool is_joined = false;       // a list is one text with commas
  std::string each;             // of mappings in a list, the key whose text counts
  /// Texts of `each` that only say how files are read, and the key of the mapping that names these.
  std::vector<std::pair<std::string, std::string>> each_instead;
  /// They name the split and the share that is taken of such a mapping's set; the text is then "name@split#50%".
  std::string each_split, each_share;
  bool is_written = true;  // false: another spelling of the same
  /// Package and version from which, and before which, the key is written; empty: always.
  std::optional<std::pair<std::string, std::string>> since, before;
  /// Values that state nothing where another key has one of the values listed there: [auto, {fp16: [true]}].
  std::vector<Value> yields;
  nlohmann::json any;              // the fact whatever stands there, but for null and false; null: `values` say
  std::vector<std::string> needs;  // keys without any of which this one has no effect
  /// Another key, and its values with which this one has an effect; null: it is not there. Empty: with all.
  std::pair<std::string, nlohmann::json> only_with;
  /// A list and the item that it must hold, else the key has no effect: a plugin. Empty: none.
  std::pair<std::string, std::string> needs_item;
  /// Keys and values that are written with it where it is on: switches that the program needs beside.
  std::vector<std::pair<std::string, nlohmann::json>> beside;
  /// Another key, the values of it that the program wants where this one is on (null: it may be absent; "*": any but
  /// null), and the reason why it stops else.
  struct Demand {
    std::string key;
    nlohmann::json values;
    std::string reason;
  };
  std::vector<Demand> demands;
  nlohmann::json with_item;  // the value where the list holds that item and the file has not the key; null: none
  std::string reason, rule;
  std::string note;                      // what to know when the key is there
  std::string unknown;                   // what a script of one's own meets with another word: then it states nothing
  std::vector<nlohmann::json> harmless;  // values of a refused key that change nothing

  static bool leaves_others(const Value& value) {
    return value.second.is_null() || value.first == "auto" || value.first.is_null();
  }
  /// Translates a value of the file by the row of `values`, if there is one.
  const Value* find_value(const nlohmann::json& in_file) const;
  /// Says whether true or false may stand there.
  bool takes_flags() const;
};

/// A key that a release of a package took away, and the key that took its place, with the same value.
struct RenamedKey {
  std::string key, to;
  std::pair<std::string, std::string> since;  // package and version
};

struct KeyTable {
  std::string name;  // "trl", as --for spells it
  std::string title, framework, source;
  FileRole role = FileRole::Trainer;
  std::string file;                                           // name of the exported file
  std::vector<std::pair<std::string, std::string>> versions;  // package, and the version that the rows describe
  std::vector<std::string> signs;                             // keys that only this format has
  std::vector<std::string> hints;                             // keys that it shares with a format that has fewer
  std::vector<std::pair<std::string, std::string>> prefixes;  // of the keys inside a mapping, which may be left out
  bool refuses_unknown = false;                               // the program itself stops at a key that it does not know
  bool own_scripts = false;          // scripts of one's own read its files too, with further fields
  bool refuses_repeated = false;     // or at one that comes twice; else the last counts
  bool takes_abbreviations = false;  // flags are argparse's: the beginning of a key's name is enough where it is one's
  bool bare_switches = false;        // flags of true or false take no value (store_true): the flag alone is true
  bool is_json = false;
  bool has_head = true;  // a JSON file names its plan under "_gpuplan"; false: the program stops
  std::vector<std::string>
      numbers_in_texts;  // beginnings of keys at which the program takes "8" and "1e-4" for numbers
  /// Why a quantised base is not trained without adapters, and what would be; empty: the file may leave adapters to a
  /// script of one's own.
  std::pair<std::string, std::string> quantised_alone;
  std::string usual_strategy;  // on several GPUs when no key says; empty: it depends on how the file is started
  std::vector<std::pair<std::string, nlohmann::json>> fixed;    // keys written into every file, with their values
  std::vector<std::pair<std::string, nlohmann::json>> assumes;  // facts that the program sets by itself
  std::vector<RenamedKey> renamed;
  /// The table in whose place this one reads a file that has one of these keys with one of these values; empty: none.
  std::string instead_of;
  std::string base_key;    // of a file whose values count where this one says nothing; empty: none
  std::string warmup_key;  // that says over how many optimizer steps the learning rate rises; empty: none is known
  std::vector<std::pair<std::string, nlohmann::json>> where;
  std::vector<KeyRow> rows;

  /// The row of a key; nullptr when there is none.
  const KeyRow* find(const std::string& key) const;
  bool takes_texts_for_numbers(const std::string& key) const;
  bool has_below(const std::string& key) const;
  /// The one key that begins so: argparse takes "--logging_step" for it. The key itself where it is known, where none
  /// or several begin so, and where the program's flags are none of argparse.
  std::string whole_key(const std::string& begin) const;
};

/// Says whether the key is written into files for these versions; a version that is not given is the newest.
bool is_written_for(const KeyRow& row, const Versions& versions);

/// Says whether a key does something beside the others of a file.
bool has_effect(const KeyRow& row, const nlohmann::json& file);

/// Gives a file's settings in the keys of these versions; a version that is not given is the newest.
nlohmann::json in_keys_of(const KeyTable& table, nlohmann::json settings, const Versions& versions);

/// Gives what stands in the file for a fact; null where the format has no word for it.
nlohmann::ordered_json value_in_file(const KeyRow& row, const nlohmann::json& fact);

/// Every format, in the order in which they are recognised. Throws InputError for a broken data file.
std::span<const KeyTable> key_tables();

/// nullptr for an unknown name.
const KeyTable* find_key_table(std::string_view name);

/// The value at "a.b.c"; nullptr where the file has none.
const nlohmann::json* value_at(const nlohmann::json& top, const std::string& key);

/// The table that reads a file of `table` with these keys: itself, or that of another engine of the same program.
const KeyTable& table_for(const KeyTable& table, const nlohmann::json& keys);

}  // namespace gpuplan
