// Reads a Python source for python_source.cpp: statements there, expressions in python_expression.cpp.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ecosystem/python_source.h"
#include "ecosystem/python_tokens.h"

namespace gpuplan {

/// Reads expressions, names that stand for literals, and the wanted calls.
class PythonReader {
 public:
  PythonReader(const std::string& text, const std::string& name, const std::vector<std::string>& names,
               const PythonSurroundings& around)
      : name_(name),
        names_(names),
        around_(around),
        tokens_(text, name) {}

  std::vector<PythonCall> read();

  /// The names of the text, once it is read.
  PythonModule module() const;

 private:
  void take_options_of(const std::string& function);
  void read_statements();

  /// `add_argument("--rank", default=8)`, and `def train(rank: int = 8)` whose parameters a command line may set.
  void read_argument_default(std::size_t i);

  /// `training(config)` of a function of the text gives its parameter a value; two different ones say nothing, and a
  /// parameter that is handed on under its name says nothing new.
  void bind_parameters(std::size_t i);

  void read_option(std::size_t i);

  /// Two different defaults of one name say nothing.
  void keep_default(std::map<std::string, PythonValue>& defaults, const std::string& name, PythonValue value) const;

  /// `args.rank`, and the bare name of a parameter; null where the default is None.
  const PythonValue* default_of(const std::string& name) const;

  /// A call of a branch that is not taken, as one without a name.
  void name_skipped(std::size_t i);

  std::vector<std::string>::const_iterator wanted_name(const std::string& name) const;

  /// Says whether the statement stands in a branch that is not taken: below `if args.qlora:` where the argument's
  /// default is false, or its `else:` where it is true.
  bool skips_branch(std::size_t i);

  /// Fields of a class have their values where nothing else is said: `Config.rank`, `self.rank`.
  void read_statement(std::size_t i);

  /// `config["rank"] = 8`
  void read_item(std::size_t i);

  /// `args.rank = 8` and `setattr(args, "rank", 8)` of what a wanted call made: one more argument of the call. In a
  /// deeper block its value is not known.
  void read_setting(std::size_t i);

  /// A name that a function assigns is its own: the one outside is as before.
  void leave_function(int column);

  /// NAME = expression, NAME: type = expression. A name that gets another value in an inner block is not known.
  void read_assignment(std::size_t i);

  /// `rank: int = 8` and `rank: int = field(default=8)` of a dataclass.
  void read_field(const std::string& name, std::size_t i);

  void read_call(std::size_t i);

  /// `from .config import SETTINGS`: the names of a module that is there.
  void read_imports(std::size_t i);

  /// `for phase in SCHEDULE:` gives the name several values.
  void read_loop(std::size_t i);

  void read_argument(std::size_t& i, std::size_t end, PythonCall& call);

  /// An expression from i on; i is behind it. What is not understood is skipped up to the next comma or line end.
  PythonValue expression(std::size_t& i, int depth);

  /// `a or b`, and below it `a and b`, `a == b`, `a is None`, `a in b`, and sums.
  PythonValue disjunction(std::size_t& i, int depth);
  PythonValue conjunction(std::size_t& i, int depth);
  PythonValue comparison(std::size_t& i, int depth);
  PythonValue sum(std::size_t& i, int depth);

  /// `value if condition else other`, where the condition is known.
  PythonValue conditional(PythonValue value, std::size_t& i, int depth);

  bool is_end(std::size_t i) const;

  PythonValue operand(std::size_t& i, int depth);

  /// f"...": names in braces that stand for literals.
  std::optional<std::string> formatted(const std::string& text) const;

  PythonValue text(std::size_t& i) const;

  PythonValue named(std::size_t& i, int depth);

  /// `config["model"]["name"]`, `MODELS[args.model]`, `config["train"].get("rank", 8)`, `argv[1]`
  PythonValue item(PythonValue value, std::size_t& i, int depth);

  /// A variable, or a parameter that has a value; nullptr: neither.
  const PythonValue* value_of(const std::string& name) const;

  /// `config.model.name` of a dict that lets its keys be written so.
  const PythonValue* attribute(const std::string& name) const;

  /// Returns the settings of the file that a call reads, be it a library's function or the script's own.
  PythonValue loaded(const std::string& name, const PythonCall& call);

  /// The tokens of a function of the text, behind its name; alike where there is none.
  std::pair<std::size_t, std::size_t> body_of(const std::string& function) const;

  /// The text that a function of the text gets and, as its last statement, gives back: a path that it checks.
  std::optional<PythonValue> handed_back(const std::string& name, const PythonCall& call) const;

  /// The path that a function of the text without parameters opens.
  PythonValue opened_by(const std::string& function);

  /// `.parent`, `.resolve()`, `.parents[1]` behind a path.
  PythonValue steps_of_path(PythonValue path, std::size_t& i) const;

  /// `env_int("RANK", 8)` of a small function of the text that asks the environment.
  std::optional<PythonValue> of_environment(const std::string& name, const PythonCall& call) const;

  /// `os.environ.get("RANK", 8)`: what the command sets, else the default.
  PythonValue variable_of(const std::string& key, PythonValue usual) const;

  /// `config.pop("rank")` takes the key out.
  PythonValue popped(const std::string& owner, const PythonCall& call);

  /// `sys.argv`, with the script itself in the first place.
  void set_arguments();

  /// `getattr(torch, "bfloat16")`, `getattr(args, "rank", 8)`
  PythonValue attribute_by_name(const PythonCall& call) const;

  /// int(x), dict(rank=8), os.environ.get("RANK", 8), config.get("rank", 8); what other functions give is not known.
  PythonValue called(const std::string& name, std::size_t& i, int depth);

  PythonValue bracket(std::size_t& i, int depth);

  const std::string& name_;
  const std::vector<std::string>& names_;
  const PythonSurroundings& around_;
  std::set<std::string> loading_;  // functions of the text that read a file of settings and return its values
  PythonTokens tokens_;
  std::map<std::string, PythonValue> variables_;
  std::map<std::string, PythonValue> options_, parameters_;    // defaults of arguments, and of functions' parameters
  std::map<std::string, PythonValue> fields_;                  // of classes of imported modules, with their defaults
  std::set<std::string> classes_, looped_;                     // of the text; names that a loop gives values
  std::map<std::string, std::vector<std::string>> functions_;  // of the text, with the names of their parameters
  std::map<std::string, PythonValue> passed_;                  // what calls of these give to their parameters
  std::vector<PythonCall> calls_;
  struct Made {
    std::size_t call;
    int column;
  };
  std::map<std::string, Made> made_;  // names that stand for what a wanted call gave
  bool binds_ = true;                 // while it is read what calls give to parameters
  std::size_t num_values_ = 0;
  std::map<int, bool> conditions_;              // by the column of the last `if` whose condition is known
  int skipped_column_ = -1;                     // of the branch that is not taken; -1: none
  int function_column_ = -1;                    // of the function whose body is read; -1: none
  std::map<std::string, PythonValue> outside_;  // what its names stand for outside
  std::set<std::string> inside_;                // names that functions were the first to assign
  int class_column_ = -1, body_column_ = -1;    // of the class whose body is read; -1: none
};

}  // namespace gpuplan
