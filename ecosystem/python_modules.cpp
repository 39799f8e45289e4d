#include "ecosystem/python_modules.h"

#include <algorithm>

#include "base/error.h"
#include "base/input_limits.h"

namespace gpuplan {
namespace {

using Token = PythonToken;

constexpr int kMostModules = 4;  // one behind the other

/// The dots and names of a module from i on; i is behind them.
std::string module_name(const PythonTokens& tokens, std::size_t& i) {
  std::string name;
  for (; i < tokens.size() && (tokens.is_mark(i, ".") || tokens.is_mark(i, "...")); ++i) name += tokens[i].text;
  if (i < tokens.size() && tokens[i].kind == Token::Kind::Name && !tokens.is_name(i, "import"))
    name += tokens.dotted(i);
  return name;
}

/// The text behind the last dot: `trl.GRPOConfig` is GRPOConfig.
std::string last_name(const std::string& name) { return name.substr(name.rfind('.') + 1); }

std::string class_in(const std::string& name, const ConfigFile& source, const std::vector<std::string>& known,
                     const FindNamed& find, int depth);

/// The class that `class NAME(Base, ...)` at token i is derived from.
std::string class_of_bases(const PythonTokens& tokens, std::size_t i, const ConfigFile& source,
                           const std::vector<std::string>& known, const FindNamed& find, int depth) {
  if (!tokens.is_open(i + 2, '(')) return {};
  const std::size_t end = tokens[i + 2].partner;
  for (std::size_t at = i + 3; at < end; tokens.skip_to_comma(at, end)) {
    if (tokens[at].kind != Token::Kind::Name || tokens.is_mark(at + 1, "=")) continue;
    std::size_t behind = at;
    const std::string base = tokens.dotted(behind);
    const bool is_itself = base == tokens[i + 1].text;  // of a library, below the same name
    if (std::string found = class_in(base, source, known, is_itself ? FindNamed{} : find, depth + 1); !found.empty())
      return found;
  }
  return {};
}

std::string class_in(const std::string& name, const ConfigFile& source, const std::vector<std::string>& known,
                     const FindNamed& find, int depth) {
  const bool is_known = std::ranges::find(known, last_name(name)) != known.end();
  if (depth > kMostModules || name.find('.') != std::string::npos || source.text.size() > kScriptLimit.bytes)
    return is_known ? last_name(name) : "";
  const PythonTokens tokens(source.text, source.name);
  for (std::size_t i = 0; i + 2 < tokens.size(); ++i) {
    if (tokens.is_name(i, "class") && tokens.is_name(i + 1, name) && find)
      if (std::string found = class_of_bases(tokens, i, source, known, find, depth); !found.empty()) return found;
    for (const PythonImport& import : python_imports(tokens, i)) {
      if (import.as != name || import.name.empty()) continue;
      const auto module = find ? find_python_module(import.module, source.name, find) : std::nullopt;
      if (module && module->name != source.name)
        if (std::string found = class_in(import.name, *module, known, find, depth + 1); !found.empty()) return found;
      if (std::ranges::find(known, import.name) != known.end()) return import.name;
    }
  }
  return is_known ? name : "";
}

}  // namespace

std::vector<PythonImport> python_imports(const PythonTokens& tokens, std::size_t i) {
  std::vector<PythonImport> imports;
  const bool begins = i == 0 || tokens[i - 1].kind == Token::Kind::NewLine || tokens.is_mark(i - 1, ";");
  const bool is_from = tokens.is_name(i, "from");
  if (!begins || (!is_from && !tokens.is_name(i, "import"))) return imports;
  std::size_t at = i + 1;
  const std::string module = module_name(tokens, at);
  if (is_from && !tokens.is_name(at, "import")) return imports;
  if (!is_from) {
    const bool has_alias = tokens.is_name(at, "as") && at + 1 < tokens.size();
    return {{module, "", has_alias ? tokens[at + 1].text : module}};
  }
  ++at;
  const bool is_open = tokens.is_open(at, '(');
  const std::size_t end = is_open ? tokens[at].partner : tokens.size();
  if (is_open) ++at;
  for (; at < end && tokens[at].kind == Token::Kind::Name; ++at) {
    const std::string name = tokens[at++].text;
    const bool has_alias = tokens.is_name(at, "as") && at + 1 < tokens.size();
    imports.push_back({module, name, has_alias ? tokens[at + 1].text : name});
    if (has_alias) at += 2;
    if (!tokens.is_mark(at, ",")) break;
  }
  return imports;
}

std::optional<ConfigFile> find_python_module(const std::string& module, const std::string& by, const FindNamed& find) {
  std::string path = module.substr(std::min(module.find_first_not_of('.'), module.size()));
  if (path.empty()) return {};
  std::ranges::replace(path, '.', '/');
  for (const std::string& place : {path + ".py", path + "/__init__.py", path + "/__main__.py", "src/" + path + ".py"})
    if (auto found = find(place, by)) return found;
  return {};
}

std::string known_class(const std::string& name, const ConfigFile& source, const std::vector<std::string>& known,
                        const FindNamed& find) {
  try {
    return class_in(
        name, source, known, find ? find : [](const auto&, const auto&) { return std::nullopt; }, 0);
  } catch (const InputError&) { return {}; }  // a source that is none of Python
}

const PythonModule* PythonModules::find(const std::string& module) {
  constexpr std::size_t kMostRead = 128;
  if (!find_ || depth_ >= kMostModules || modules_.size() >= kMostRead) return nullptr;
  const auto [found, is_new] = modules_.try_emplace(module, std::nullopt);
  auto& slot = found->second;
  if (!is_new) return slot ? &*slot : nullptr;
  const std::string by = by_;
  const auto source = find_python_module(module, by.empty() ? script_.name : by, find_);
  if (!source || source->name == script_.name || source->text.size() > kScriptLimit.bytes) return nullptr;
  ++depth_;
  by_ = source->name;
  try {
    slot = read_python_module(source->text, source->name, around_);
  } catch (const InputError&) { slot.reset(); }
  by_ = by;
  --depth_;
  return slot ? &*slot : nullptr;
}

}  // namespace gpuplan
