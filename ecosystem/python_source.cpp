#include "ecosystem/python_source.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "ecosystem/python_modules.h"
#include "ecosystem/python_reader.h"

namespace gpuplan {
namespace {

using Token = PythonToken;

}  // namespace

std::vector<PythonCall> PythonReader::read() {
  for (std::size_t i = 0; i < tokens_.size(); ++i) read_argument_default(i);
  for (const auto& [name, value] : around_.options) options_[name] = value;
  for (std::size_t i = 0; i + 2 < tokens_.size(); ++i)
    if (tokens_.is_name(i, "Fire") && tokens_.is_open(i + 1, '(')) take_options_of(tokens_[i + 2].text);
  loading_ = tokens_.functions_that_call(around_.loads);
  set_arguments();
  read_statements();
  if (passed_.empty()) return std::move(calls_);
  // what the calls give to parameters stands behind the functions that read them
  for (auto& [name, value] : passed_) parameters_.try_emplace(name, std::move(value));
  variables_.clear(), conditions_.clear(), calls_.clear(), made_.clear(), looped_.clear();
  set_arguments();
  skipped_column_ = class_column_ = body_column_ = function_column_ = -1;
  outside_.clear(), inside_.clear();
  num_values_ = 0;
  binds_ = false;
  read_statements();
  return std::move(calls_);
}

/// Fire hands the flags of the command to the parameters of a function, and reads lists in texts.
void PythonReader::take_options_of(const std::string& function) {
  const auto own = functions_.find(function);
  if (own == functions_.end()) return;
  for (const std::string& name : own->second) {
    const auto given = around_.options.find(name);
    if (given == around_.options.end()) continue;
    const std::string& text = given->second.text;
    const bool is_list = given->second.is_text && text.starts_with('[') && nlohmann::json::accept(text);
    parameters_[name] = is_list ? python_value_of(nlohmann::json::parse(text)) : given->second;
  }
}

void PythonReader::read_statements() {
  bool begins_statement = true;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i].kind == Token::Kind::NewLine) {
      begins_statement = true;
      continue;
    }
    if (begins_statement) leave_function(tokens_[i].column);
    if (begins_statement && skips_branch(i)) {
      for (; i + 1 < tokens_.size() && tokens_[i + 1].kind != Token::Kind::NewLine; ++i) name_skipped(i);
      continue;
    }
    if (begins_statement) read_statement(i);
    begins_statement = false;
    if (tokens_[i].kind == Token::Kind::Name && (i == 0 || !tokens_.is_mark(i - 1, "."))) read_call(i);
  }
}

void PythonReader::read_argument_default(std::size_t i) {
  if (tokens_[i].kind != Token::Kind::Name) return;
  if (tokens_[i].text == "add_argument" && tokens_.is_open(i + 1, '(')) return read_option(i + 1);
  if (tokens_[i].text != "def" || i + 1 >= tokens_.size() || !tokens_.is_open(i + 2, '(')) return;
  const std::size_t end = tokens_[i + 2].partner;
  std::vector<std::string>& parameters = functions_[tokens_[i + 1].text];
  parameters.clear();
  for (std::size_t at = i + 3; at < end; tokens_.skip_to_comma(at, end)) {
    const std::string name = tokens_[at].kind == Token::Kind::Name ? tokens_[at].text : "";
    while (at < end && !tokens_.is_mark(at, "=") && !tokens_.is_mark(at, ","))
      at = tokens_[at].kind == Token::Kind::Open ? tokens_[at].partner + 1 : at + 1;
    parameters.push_back(name);
    if (!name.empty() && tokens_.is_mark(at, "=")) keep_default(parameters_, name, expression(++at, 0));
  }
}

void PythonReader::bind_parameters(std::size_t i) {
  const auto function = functions_.find(tokens_[i].text);
  if (!binds_ || function == functions_.end() || !tokens_.is_open(i + 1, '(') ||
      (i > 0 && tokens_[i - 1].text == "def"))
    return;
  PythonCall call;
  const std::size_t end = tokens_[i + 1].partner;
  for (std::size_t at = i + 2; at < end;) read_argument(at, end, call);
  for (std::size_t k = 0; k < std::min(call.positional.size(), function->second.size()); ++k)
    call.keywords.emplace_back(function->second[k], std::move(call.positional[k]));
  for (auto& [name, value] : call.keywords) {
    if (value.is_unset) value = python_literal("null");
    const bool is_known = value.kind != PythonValue::Kind::Name && value.kind != PythonValue::Kind::Unknown;
    if (name.empty() || (!is_known && value.text == name && !looped_.contains(name))) continue;
    const auto [before, is_new] = passed_.try_emplace(name, is_known ? value : unknown_python_value(name));
    if (!is_new && !same_python_values(before->second, value)) before->second = unknown_python_value(name);
  }
}

void PythonReader::read_option(std::size_t i) {
  const std::size_t end = tokens_[i].partner;
  std::string name;
  std::optional<PythonValue> value;
  for (++i; i < end; tokens_.skip_to_comma(i, end)) {
    if (tokens_[i].kind == Token::Kind::Text && tokens_[i].text.starts_with("--") && name.empty())
      name = tokens_[i].text.substr(2);
    if (tokens_[i].kind != Token::Kind::Name || !tokens_.is_mark(i + 1, "=")) continue;
    const std::string key = tokens_[i].text;
    i += 2;
    PythonValue given = expression(i, 0);
    if (key == "default") value = std::move(given);
    if (key == "action" && given.text == "store_true" && !value) value = python_literal("false");
    if (key == "dest" && given.is_text) name = given.text;
  }
  std::ranges::replace(name, '-', '_');
  if (!name.empty() && value) keep_default(options_, name, std::move(*value));
}

void PythonReader::keep_default(std::map<std::string, PythonValue>& defaults, const std::string& name,
                                PythonValue value) const {
  const auto before = defaults.find(name);
  if (before != defaults.end() && !same_python_values(before->second, value)) value = unknown_python_value(name);
  value.argument = "argument " + name;
  defaults[name] = std::move(value);
}

void PythonReader::name_skipped(std::size_t i) {
  const int line = tokens_[i].line;
  if (tokens_[i].kind != Token::Kind::Name || (i > 0 && tokens_.is_mark(i - 1, "."))) return;
  const std::string name = tokens_.dotted(i);
  if (!tokens_.is_open(i, '(') || wanted_name(name) == names_.end()) return;
  calls_.push_back({.name = "", .line = line, .positional = {}, .keywords = {}, .open = {name}});
}

std::vector<std::string>::const_iterator PythonReader::wanted_name(const std::string& name) const {
  return std::find_if(names_.begin(), names_.end(),
                      [&](const std::string& own) { return name == own || name.ends_with("." + own); });
}

bool PythonReader::skips_branch(std::size_t i) {
  const int column = tokens_[i].column;
  if (skipped_column_ >= 0 && column > skipped_column_) return true;
  skipped_column_ = -1;
  std::erase_if(conditions_, [&](const auto& condition) { return condition.first > column; });
  if (tokens_[i].kind != Token::Kind::Name) return false;
  const auto before = conditions_.find(column);
  const bool is_else = tokens_.is_name(i, "else") && tokens_.is_mark(i + 1, ":"), is_elif = tokens_.is_name(i, "elif");
  if ((is_else || is_elif) && before != conditions_.end() && before->second) {
    skipped_column_ = column;
    return false;
  }
  conditions_.erase(column);
  if (!tokens_.is_name(i, "if") && !is_elif) return false;
  std::size_t at = i + 1;
  const PythonValue condition = disjunction(at, 0);
  const bool is_flag = condition.kind == PythonValue::Kind::Literal &&
                       (condition.text == "true" || condition.text == "false") && !condition.asks_card;
  const bool is_unset = condition.is_unset && condition.text.find('.') != std::string::npos;  // if args.config:
  if ((!is_flag && !is_unset) || !tokens_.is_mark(at, ":")) return false;
  const bool holds = is_flag && condition.text == "true";
  conditions_[column] = holds;
  if (!holds) skipped_column_ = column;
  return false;
}

void PythonReader::read_statement(std::size_t i) {
  if (tokens_[i].column <= class_column_) class_column_ = body_column_ = -1;
  if (class_column_ >= 0 && body_column_ < 0) body_column_ = tokens_[i].column;
  if (tokens_[i].kind != Token::Kind::Name) return;
  if (tokens_[i].text == "with" && i + 2 < tokens_.size() && tokens_[i + 1].text == "open" &&
      tokens_.is_open(i + 2, '(')) {
    std::size_t at = i + 1;
    PythonValue path = operand(at, 0);
    if (at + 1 < tokens_.size() && tokens_[at].text == "as") variables_[tokens_[at + 1].text] = std::move(path);
  }
  if (tokens_[i].column == body_column_ && tokens_.is_mark(i + 1, "=")) {
    std::size_t at = i + 2;
    PythonValue value = expression(at, 0);
    if (value.kind != PythonValue::Kind::Unknown) keep_default(options_, tokens_[i].text, std::move(value));
  }
  read_imports(i);
  read_loop(i);
  if (tokens_[i].text == "class" && i + 1 < tokens_.size()) classes_.insert(tokens_[i + 1].text);
  if (tokens_[i].text == "class" && body_column_ < 0) class_column_ = tokens_[i].column;
  if (tokens_[i].text == "def" && function_column_ < 0) function_column_ = tokens_[i].column;
  tokens_.is_open(i + 1, '[') ? read_item(i) : read_assignment(i);
  read_setting(i);
  const bool is_changed = tokens_.is_mark(i + 1, ".") && i + 2 < tokens_.size() && tokens_[i + 2].text == "update";
  if (is_changed) variables_.erase(tokens_[i].text);
}

void PythonReader::read_item(std::size_t i) {
  const auto variable = variables_.find(tokens_[i].text);
  std::size_t at = tokens_[i + 1].partner + 1;
  if (variable == variables_.end() || !tokens_.is_mark(at, "=")) return;
  const bool is_key = at == i + 4 && tokens_[i + 2].kind == Token::Kind::Text &&
                      variable->second.kind == PythonValue::Kind::Dict && tokens_[i].column == 0;
  if (!is_key) {
    variables_.erase(variable);
    return;
  }
  PythonValue value = expression(++at, 0);
  auto& keys = variable->second.keys;
  std::erase_if(keys, [&](const auto& key) { return key.first == tokens_[i + 2].text; });
  keys.emplace_back(tokens_[i + 2].text, std::move(value));
}

void PythonReader::read_setting(std::size_t i) {
  const bool is_function = tokens_.is_name(i, "setattr") && tokens_.is_open(i + 1, '(');
  const std::size_t owner = is_function ? i + 2 : i;
  const char* const before = is_function ? "," : ".";
  if (owner + 4 >= tokens_.size() || !tokens_.is_mark(owner + 1, before)) return;
  const PythonToken& key = tokens_[owner + 2];
  if (key.kind != (is_function ? Token::Kind::Text : Token::Kind::Name)) return;
  const auto made = made_.find(tokens_[owner].text);
  if (made == made_.end() || made->second.call >= calls_.size()) return;
  if (!tokens_.is_mark(owner + 3, is_function ? "," : "=")) return;
  std::size_t at = owner + 4;
  PythonValue value = expression(at, 0);
  if (tokens_[i].column > made->second.column) value = unknown_python_value(key.text);
  auto& keywords = calls_[made->second.call].keywords;
  std::erase_if(keywords, [&](const auto& argument) { return argument.first == key.text; });
  keywords.emplace_back(key.text, std::move(value));
}

void PythonReader::leave_function(int column) {
  if (function_column_ < 0 || column > function_column_) return;
  function_column_ = -1;
  for (auto& [name, value] : outside_) variables_[name] = std::move(value);
  outside_.clear();
}

void PythonReader::read_assignment(std::size_t i) {
  if (tokens_[i].kind != Token::Kind::Name) return;
  const std::string name = tokens_[i].text;
  const int column = tokens_[i].column;
  const bool is_inner = column > 0;
  ++i;
  const bool has_type = tokens_.is_mark(i, ":");
  if (has_type)
    while (i < tokens_.size() && tokens_[i].kind != Token::Kind::NewLine && !tokens_.is_mark(i, "=")) ++i;
  if (has_type && is_inner && tokens_.is_mark(i, "=")) read_field(name, i + 1);
  if (!tokens_.is_mark(i, "=")) {
    if (tokens_.is_mark(i, "+=") || tokens_.is_mark(i, "-=") || tokens_.is_mark(i, "*=")) variables_.erase(name);
    return;
  }
  made_.erase(name);
  if (std::size_t call = i + 1; call < tokens_.size() && tokens_[call].kind == Token::Kind::Name)
    if (const std::string maker = tokens_.dotted(call);
        tokens_.is_open(call, '(') && wanted_name(maker) != names_.end())
      made_[name] = {calls_.size(), column};
  PythonValue value = expression(++i, 0);
  if (i < tokens_.size() && tokens_[i].kind != Token::Kind::NewLine && !tokens_.is_mark(i, ";")) {
    if (!tokens_.is_mark(i, ","))
      value = unknown_python_value(name);
    else
      return;
  }
  const auto before = variables_.find(name);
  const bool is_outside = function_column_ >= 0 && before != variables_.end() && !inside_.contains(name);
  if (is_outside) outside_.try_emplace(name, before->second);
  if (is_inner && before != variables_.end() && !same_python_values(before->second, value))
    value = unknown_python_value(name);
  if (function_column_ >= 0 && before == variables_.end()) inside_.insert(name);
  variables_[name] = std::move(value);
}

void PythonReader::read_field(const std::string& name, std::size_t i) {
  if (tokens_[i].kind != Token::Kind::Name || tokens_[i].text != "field" || !tokens_.is_open(i + 1, '(')) {
    PythonValue value = expression(i, 0);
    if (value.kind != PythonValue::Kind::Unknown) keep_default(options_, name, std::move(value));
    return;
  }
  const std::size_t end = tokens_[i + 1].partner;
  for (i += 2; i < end; tokens_.skip_to_comma(i, end))
    if ((tokens_[i].text == "default" || tokens_[i].text == "default_factory") && tokens_.is_mark(i + 1, "=")) {
      i += 2;
      if (tokens_[i].text == "lambda" && tokens_.is_mark(i + 1, ":")) i += 2;
      keep_default(options_, name, expression(i, 0));
    }
}

void PythonReader::read_imports(std::size_t i) {
  if (!around_.import_module) return;
  for (const PythonImport& import : python_imports(tokens_, i)) {
    const PythonModule* const module = around_.import_module(import.module);
    if (!module) continue;
    const auto is_taken = [&](const std::string& name) { return import.name.empty() || import.name == name; };
    const auto own_name = [&](const std::string& name) {
      return import.name.empty() ? import.as + "." + name : import.as;
    };
    bool has_fields =
        import.name.empty() || module->classes.contains(import.name) || module->loading.contains(import.name);
    for (const auto& [name, value] : module->variables) {
      if (!is_taken(name)) continue;
      const std::string maker = value.text.substr(0, value.text.find('('));  // SETTINGS = Settings()
      has_fields = has_fields || module->classes.contains(maker);
      if (value.kind != PythonValue::Kind::Unknown) variables_[own_name(name)] = value;
    }
    for (const std::string& name : module->loading)
      if (is_taken(name)) loading_.insert(own_name(name));
    if (has_fields)
      for (const auto& [name, value] : module->fields) fields_.try_emplace(name, value);
  }
}

void PythonReader::read_loop(std::size_t i) {
  if (!tokens_.is_name(i, "for")) return;
  for (++i; i < tokens_.size() && !tokens_.is_name(i, "in") && tokens_[i].kind != Token::Kind::NewLine; ++i) {
    if (tokens_[i].kind != Token::Kind::Name) continue;
    variables_[tokens_[i].text] = unknown_python_value(tokens_[i].text);
    looped_.insert(tokens_[i].text);
  }
}

PythonModule PythonReader::module() const {
  PythonModule module{.variables = variables_, .fields = options_, .classes = classes_, .loading = loading_};
  for (const std::string& name : inside_) module.variables.erase(name);
  module.fields.insert(fields_.begin(), fields_.end());
  return module;
}

void PythonReader::read_call(std::size_t i) {
  const int line = tokens_[i].line;
  bind_parameters(i);
  const std::string name = tokens_.dotted(i);
  if (!tokens_.is_open(i, '(')) return;
  const auto wanted = wanted_name(name);
  if (wanted == names_.end()) return;
  PythonCall call{.name = *wanted, .line = line, .positional = {}, .keywords = {}, .open = {}};
  const std::size_t end = tokens_[i].partner;
  for (++i; i < end;) read_argument(i, end, call);
  calls_.push_back(std::move(call));
}

void PythonReader::read_argument(std::size_t& i, std::size_t end, PythonCall& call) {
  if (tokens_.is_mark(i, "**")) {
    const std::size_t begin = ++i;
    const PythonValue value = expression(i, 0);
    if (value.kind == PythonValue::Kind::Dict)
      call.keywords.insert(call.keywords.end(), value.keys.begin(), value.keys.end());
    else
      call.open.push_back("**" + (begin < end ? tokens_[begin].text : ""));
  } else if (tokens_[i].kind == Token::Kind::Name && tokens_.is_mark(i + 1, "=")) {
    const std::string name = tokens_[i].text;
    i += 2;
    call.keywords.emplace_back(name, expression(i, 0));
  } else {
    call.positional.push_back(expression(i, 0));
  }
  tokens_.skip_to_comma(i, end);
}

void PythonReader::set_arguments() {
  variables_["__file__"] = python_literal(name_, true);
  if (around_.arguments.empty()) return;
  PythonValue& list = variables_["sys.argv"];
  list.kind = PythonValue::Kind::List;
  list.items = around_.arguments;
  list.items.insert(list.items.begin(), python_literal(name_, true));
}

std::vector<PythonCall> read_python_calls(const std::string& text, const std::string& name,
                                          const std::vector<std::string>& names, const PythonSurroundings& around) {
  return PythonReader(text, name, names, around).read();
}

PythonModule read_python_module(const std::string& text, const std::string& name, const PythonSurroundings& around) {
  const std::vector<std::string> names;
  PythonReader reader(text, name, names, around);
  reader.read();
  return reader.module();
}

}  // namespace gpuplan
