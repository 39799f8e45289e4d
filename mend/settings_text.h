// A settings file as its text, in which single values can be replaced and keys be added; comments, order, quotes and
// unknown keys stay as they are.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ecosystem/emit.h"
#include "ecosystem/file_kind.h"
#include "mend/text_edit.h"

namespace gpuplan {

class SettingsText {
 public:
  /// Throws InputError as parse_config does.
  SettingsText(ConfigFile file, const KeyTable& table);

  const std::string& name() const { return file_.name; }
  bool is_there(const std::string& key) const { return tree_->places.count(key) > 0; }
  const nlohmann::json& root() const { return tree_->root; }

  /// Gives a key a value, in place where it is there, else beside keys that change too, or those that the table lists
  /// near it. False where the text has no place for it: behind an anchor, in a text of several lines.
  bool put(const std::string& key, const OrderedJson& value);
  /// Adds an item to a list of texts, unless it is there. False as above.
  bool append(const std::string& key, const std::string& item);
  /// Takes the value of a key away; the key stays, but for one of a section that says nothing without it.
  bool clear(const std::string& key);

  /// The value that stands there, or was put; null where there is none.
  nlohmann::json value_of(const std::string& key) const;

  /// The text with all that was put.
  std::string text() const;

 private:
  bool is_toml() const { return file_.name.ends_with(".toml"); }
  void take_back(const std::string& key);
  void remove_entry(const std::string& key, std::vector<TextEdit>& edits) const;
  void remove_from(const std::string& section, const std::set<std::string>& keys, std::vector<TextEdit>& edits) const;
  bool can_go(const std::string& key) const;
  bool put_toml(const std::string& key, const OrderedJson& value);
  bool is_json() const { return tree_->format == FileFormat::Json; }
  std::string value_text(const OrderedJson& value) const;
  std::size_t line_begin(std::size_t at) const;
  std::size_t line_end(std::size_t at) const;
  std::size_t column(std::size_t at) const;
  bool find_value(const std::string& key, std::size_t& begin, std::size_t& end) const;
  std::size_t behind_key(std::size_t key_begin) const;
  std::size_t entry_end(std::size_t key_begin) const;
  std::ptrdiff_t index_of(const std::string& path) const;
  bool replaces_in(const std::string& mapping) const;
  std::string leader(const std::string& mapping, const OrderedJson& entries) const;
  std::string neighbour(const std::string& mapping, const std::string& key) const;
  std::string indent_unit() const;
  void add(const std::string& mapping, const OrderedJson& entries, std::vector<TextEdit>& edits) const;
  void add_lines(const std::string& mapping, const OrderedJson& entries, std::vector<TextEdit>& edits) const;
  void add_in_brackets(const std::string& mapping, const OrderedJson& entries, std::vector<TextEdit>& edits) const;

  ConfigFile file_;
  const KeyTable& table_;
  std::shared_ptr<ValueTree> tree_;
  std::string line_break_;
  KeyedEdits edits_;
  std::map<std::string, std::set<std::string>> gone_;  // section: its keys that go
  std::map<std::string, nlohmann::json> now_;          // what was put
  std::vector<std::string> replaced_;                  // keys with another value
  std::map<std::string, OrderedJson> added_;           // mapping that is there: what is new in it
};

}  // namespace gpuplan
