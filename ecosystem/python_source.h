// Python sources as people paste them: the calls of chosen functions, with arguments that are literals or names of
// literals. Nothing is executed; what only a run would show is named.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ecosystem/python_value.h"

namespace gpuplan {

/// Holds what a module of the user's own gives to those that import it.
struct PythonModule {
  std::map<std::string, PythonValue> variables, fields;  // fields: of its classes, with their defaults
  std::set<std::string> classes, loading;  // loading: functions that give the values of a file of settings
};

/// Holds what surrounds a script when it runs.
struct PythonSurroundings {
  std::vector<std::string> assumed;            // functions that ask the card, whose answer is taken as true
  std::map<std::string, bool> answers;         // functions whose answer is known: torch.cuda.is_available
  std::vector<std::string> loads;              // functions that read a file of settings: yaml.safe_load
  std::vector<std::string> makes_dicts;        // functions that give a dict, as dict() does
  std::vector<std::string> usual;              // mappings whose values are a library's own defaults
  std::map<std::string, PythonValue> options;  // of the command line
  std::vector<PythonValue> arguments;          // of the command line, without a name
  /// The values of a file of settings; an unknown value says in its text why there are none.
  std::function<PythonValue(const std::string& path)> read_file;
  /// A module that lies beside the script; nullptr: there is none.
  std::function<const PythonModule*(const std::string& module)> import_module;
  std::vector<std::string> counts_gpus;            // functions that give the number of GPUs
  std::int64_t num_gpus = 0;                       // 0: not said
  std::map<std::string, PythonValue> environment;  // variables that the command sets
};

/// The calls whose name ends in one of `names`, in the order of the text. Arguments of the script's own command line
/// (add_argument of argparse, fields of a dataclass, parameters of a function) have their defaults, and so have
/// variables of the environment; a parameter without one has what the calls in the text give it. Throws InputError
/// with "name:line" for a quote or bracket that is not closed.
std::vector<PythonCall> read_python_calls(const std::string& text, const std::string& name,
                                          const std::vector<std::string>& names, const PythonSurroundings& around = {});

/// The names that a module defines. Throws InputError as read_python_calls does.
PythonModule read_python_module(const std::string& text, const std::string& name, const PythonSurroundings& around);

}  // namespace gpuplan
