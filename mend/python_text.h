// A Python script as its text, in which literal keyword arguments of the calls that set a training up get other
// values, and the trainer's own settings get further ones.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ecosystem/config_reader.h"
#include "ecosystem/emit.h"
#include "ecosystem/python_launch.h"
#include "ecosystem/python_tokens.h"
#include "mend/text_edit.h"

namespace gpuplan {

/// "True", "None", "8".
std::string python_word(const OrderedJson& value);

class PythonText {
 public:
  /// Throws InputError for a quote or bracket that is not closed.
  PythonText(ConfigFile file, const std::string& table);

  const std::string& name() const { return file_.name; }

  /// Gives the one keyword argument that states `key` a value, or adds it to the one call that makes the trainer's
  /// settings. False where the value is computed, stands in two calls, or there is no such place.
  bool put(const SettingsPart& part, const std::string& key, const OrderedJson& value);
  /// Takes the keyword argument away. False as above.
  bool clear(const SettingsPart& part, const std::string& key);

  /// "vllm_enable_sleep_mode=True in GRPOConfig": what is to be typed where the text itself cannot be changed.
  std::string to_type(const std::string& key, const OrderedJson& value) const;

  /// The keyword as it stands or would stand in the text: "r" for lora_r.
  std::string keyword_for(const std::string& key) const;

  std::string text() const { return with_edits(file_.text, edits_.list()); }

 private:
  struct Call {
    const KeywordCall* row;
    std::size_t open;  // token
  };
  struct Argument {
    std::size_t call, name;  // token of the keyword
    std::size_t value_end;   // token behind its value
  };

  std::vector<Argument> arguments_of(const std::string& key) const;
  std::optional<Argument> only_argument(const std::string& key) const;
  const Call* settings_call() const;
  const Call* call_for(const std::string& key) const;
  bool has_unknown(const Call& call) const;
  bool is_literal(const Argument& argument) const;
  bool add(const std::string& key, const OrderedJson& value);
  bool edit(const std::string& key, TextEdit edit);

  ConfigFile file_;
  std::vector<KeywordCall> rows_;
  PythonTokens tokens_;
  std::vector<Call> calls_;
  KeyedEdits edits_;
};

}  // namespace gpuplan
