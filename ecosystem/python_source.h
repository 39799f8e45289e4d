// Python sources as people paste them: the calls of chosen functions, with arguments that are literals or names of
// literals. Nothing is executed; what only a run would show is named.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuplan {

/// An argument. Of `torch.bfloat16` the text is "bfloat16"; true, false and null are as in JSON.
struct PythonValue {
  enum class Kind { Literal, Name, List, Dict, Unknown };
  Kind kind = Kind::Unknown;
  std::string text;                                       // of a literal; of an unknown one its beginning
  std::vector<PythonValue> items;                         // of a list
  std::vector<std::pair<std::string, PythonValue>> keys;  // of a dict with texts as keys
  bool is_text = false;                                   // a literal in quotes
  bool asks_card = false;                                 // true or false as the card answers
  std::string argument;                                   // "argument rank": of the script, whose default it is
  bool is_unset = false;                                  // an argument of the script whose default is None
};

struct PythonCall {
  std::string name;  // "FastLanguageModel.from_pretrained"; empty of a branch that is not taken, `open` says the name
  int line = 1;
  std::vector<PythonValue> positional;
  std::vector<std::pair<std::string, PythonValue>> keywords;
  std::vector<std::string> open;  // "**kwargs" that are not known
};

/// The calls whose name ends in one of `names`, in the order of the text. Arguments of the script's own command line
/// (add_argument of argparse, fields of a dataclass, parameters of a function) have their defaults, and so have
/// variables of the environment; a parameter without one has what the calls in the text give it. `assumed` are
/// functions that ask the card, whose answer is taken as true. `given` are options of the command line. Throws
/// InputError with "name:line" for a quote or bracket that is not closed.
std::vector<PythonCall> read_python_calls(const std::string& text, const std::string& name,
                                          const std::vector<std::string>& names,
                                          const std::vector<std::string>& assumed,
                                          const std::map<std::string, PythonValue>& given = {});

}  // namespace gpuplan
