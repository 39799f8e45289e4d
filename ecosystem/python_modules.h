// Modules of a user's own beside a Python script: which file a name is imported from, and which library's class one of
// their classes is. Nothing is executed.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ecosystem/file_kind.h"
#include "ecosystem/python_source.h"
#include "ecosystem/python_tokens.h"

namespace gpuplan {

/// The text of a file that a script names; nothing where it is not found.
using FindNamed = std::function<std::optional<ConfigFile>(const std::string& named, const std::string& by)>;

/// `from .config import SETTINGS as S`; of `import config as c` the name is empty.
struct PythonImport {
  std::string module, name, as;
};

/// The imports of the statement at token i; empty where it is none.
std::vector<PythonImport> python_imports(const PythonTokens& tokens, std::size_t i);

/// The source of a module that lies beside the file `by`, in the current folder, or in src.
std::optional<ConfigFile> find_python_module(const std::string& module, const std::string& by, const FindNamed& find);

/// The one of `known` that a class of a source is, or is derived from; empty: none, as far as the sources are there.
std::string known_class(const std::string& name, const ConfigFile& source, const std::vector<std::string>& known,
                        const FindNamed& find);

/// The modules of the user's own that a script imports, each read once.
class PythonModules {
 public:
  PythonModules(const ConfigFile& script, const FindNamed& find, const PythonSurroundings& around)
      : script_(script),
        find_(find),
        around_(around) {}

  /// nullptr where none of that name lies there, or too many are read.
  const PythonModule* find(const std::string& module);

 private:
  const ConfigFile& script_;
  const FindNamed& find_;
  const PythonSurroundings& around_;
  std::map<std::string, std::optional<PythonModule>> modules_;
  std::string by_;  // the module whose imports are read; empty: the script
  int depth_ = 0;
};

}  // namespace gpuplan
