// Values of a Python source as far as its text tells them, and sums of them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace gpuplan {

/// An argument. Of `torch.bfloat16` the text is "bfloat16"; true, false and null are as in JSON.
struct PythonValue {
  enum class Kind { Literal, Name, List, Dict, Unknown };
  Kind kind = Kind::Unknown;
  std::string text;                                       // of a literal; of an unknown one its beginning, or why it is
  std::vector<PythonValue> items;                         // of a list
  std::vector<std::pair<std::string, PythonValue>> keys;  // of a dict with texts as keys
  bool is_text = false;                                   // a literal in quotes
  bool asks_card = false;                                 // true or false as the card answers
  std::string argument;                                   // "argument rank": of the script, whose default it is
  bool is_unset = false;                                  // an argument of the script whose default is None
  bool is_usual = false;                                  // what the library takes where nothing is said
  bool is_missing = false;                                // what a file would say that is not there: `text` names it
};

struct PythonCall {
  std::string name;  // "FastLanguageModel.from_pretrained"; empty of a branch that is not taken, `open` says the name
  int line = 1;
  std::vector<PythonValue> positional;
  std::vector<std::pair<std::string, PythonValue>> keywords;
  std::vector<std::string> open;  // "**kwargs" that are not known
};

PythonValue python_literal(std::string text, bool is_text = false);

/// A value that only a run shows; `written` is cut.
PythonValue unknown_python_value(std::string written);

/// Values of a JSON or YAML file.
PythonValue python_value_of(const nlohmann::json& value);

/// The value as JSON; what is not known makes it null, and is named.
nlohmann::json json_of(const PythonValue& value, std::vector<std::string>& unknown);

/// The number that a literal states without quotes.
std::optional<double> number_of(const PythonValue& value);

/// A sum, difference, product or quotient of two numbers, or two texts one after the other.
std::optional<PythonValue> combined(const std::string& sign, const PythonValue& a, const PythonValue& b);

/// Says whether the value is true in a condition of Python; nothing where only a run shows it.
std::optional<bool> truth_of(const PythonValue& value);

/// `a == b` and `a is b`, and `value in container`; nothing where only a run shows it.
std::optional<bool> are_equal(const PythonValue& a, const PythonValue& b);
std::optional<bool> contains(const PythonValue& container, const PythonValue& value);

/// Says whether both are known to be the same.
bool same_python_values(const PythonValue& a, const PythonValue& b);

/// The value of a key of a dict, or of a place in a list; nullptr where there is none.
const PythonValue* find_item(const PythonValue& value, const PythonValue& key);

/// The keywords of `dict(a=1)`, behind the keys of a dict that stands first.
PythonValue dict_of(const PythonCall& call);

}  // namespace gpuplan
