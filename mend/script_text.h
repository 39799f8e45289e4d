// A launch script as its text, in which the flags of its command can get other values and flags be added.
#pragma once

#include <string>
#include <vector>

#include "ecosystem/config_reader.h"
#include "ecosystem/emit.h"
#include "mend/text_edit.h"

namespace gpuplan {

class ScriptText {
 public:
  explicit ScriptText(ConfigFile file) : file_(std::move(file)) {}

  const std::string& name() const { return file_.name; }

  /// Gives the flag of `part` that states `key` a value, or adds it behind the others. False where it does not stand in
  /// the text as a word of its own: in an array, in a text behind `bash -c`.
  bool put(const SettingsPart& part, const std::string& key, const OrderedJson& value);
  /// Takes a flag away. False as above.
  bool clear(const SettingsPart& part, const std::string& key);

  std::string text() const { return with_edits(file_.text, edits_.list()); }

 private:
  bool stands(const LaunchFlag& flag) const;
  std::string word_of(const SettingsPart& part, const OrderedJson& value) const;
  bool add(const SettingsPart& part, const std::string& key, const OrderedJson& json);

  ConfigFile file_;
  KeyedEdits edits_;
};

/// The flag of a part that states a key of its table; nullptr: none does.
const LaunchFlag* flag_for(const SettingsPart& part, const std::string& key);

}  // namespace gpuplan
