#include "ecosystem/shell_expansion.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "base/names.h"
#include "ecosystem/shell_arithmetic.h"
#include "ecosystem/shell_condition.h"

namespace gpuplan {

namespace {

constexpr std::size_t kMostShellBytes = std::size_t(1) << 22;  // of all words together
constexpr std::size_t kMostItemsFound = 4'000'000;
constexpr int kMostShellNesting = 24;

}  // namespace

void ShellExpander::spend(std::size_t bytes) {
  spent_ += bytes;
  if (spent_ > kMostShellBytes || bytes > kMostWordBytes)
    fail(line_, "its variables grow too large", "write the values out");
}

const ShellValue* ShellExpander::find(const std::string& name) {
  if (variables_.num_items_found() > kMostItemsFound) fail(line_, "its arrays are read too often", "write them out");
  return variables_.find(name);
}

void ShellExpander::assign(const std::string& name, ShellValue value) {
  spend(value.joined().size());
  variables_.assign(name, std::move(value));
}

void ShellExpander::open_branch() {
  if (!variables_.open_branch()) fail(line_, "is nested too deeply");
}

ShellValue ShellExpander::expand(const std::string& text) {
  if (++nesting_ > kMostShellNesting) fail(line_, "is nested too deeply");
  const std::string outer_text = std::move(text_);
  const std::size_t outer_at = at_;
  const int outer_line = line_;
  text_ = text;
  at_ = 0;
  ShellValue value{{""}, {}, false};
  while (!is_end()) {
    const char c = peek();
    if (c == '\'' || c == '"') {
      take();
    } else if (c == '\\') {
      take();
      if (!is_end()) value.items[0] += take();
    } else if (c == '$' || c == '`') {
      const ShellValue part = expansion();
      value.items[0] += part.joined();
      add_names(value.unknown, part.unknown);
    } else {
      value.items[0] += take();
    }
    if (value.items[0].size() > kMostWordBytes) spend(value.items[0].size());
  }
  spend(value.items[0].size());
  text_ = outer_text;
  at_ = outer_at;
  line_ = outer_line;
  --nesting_;
  return value;
}

ShellValue ShellExpander::arithmetic(const std::string& expression) {
  std::string written;
  std::vector<std::string> missing;
  const ShellValue replaced = expand(expression);
  const std::string& text = replaced.items[0];
  for (std::size_t i = 0; i < text.size();) {
    if (!is_name_start(text[i])) {
      written += text[i++];
      continue;
    }
    std::string name;
    while (i < text.size() && is_name_char(text[i])) name += text[i++];
    const ShellValue* value = find(name);
    if (value && value->unknown.empty())
      written += value->joined();
    else
      add_names(missing, value ? value->unknown : std::vector<std::string>{"$" + name});
  }
  add_names(missing, replaced.unknown);
  if (missing.empty())
    if (const auto number = shell_arithmetic(written)) return {{std::to_string(*number)}, {}, false};
  ShellValue result = unknown_value("$((" + expression + "))");
  if (!missing.empty()) result.unknown = missing;
  if (!missing.empty() && missing[0].size() > 1 && is_name_start(missing[0][1]))
    result.items = {missing[0]};  // that a further reading, of `eval`, names the same
  return result;
}

namespace {

/// "gpu" of `python -c 'import torch_npu' && echo npu || echo gpu`; empty for other commands.
std::string echo_without_module(const std::string& command) {
  const std::size_t both = command.find("&&"), other = command.find("||");
  if (both == std::string::npos || other == std::string::npos || !imports_absent_module(command.substr(0, both)))
    return "";
  const std::string_view last = trim(std::string_view(command).substr(other + 2));
  constexpr std::string_view kEcho = "echo ";
  return last.starts_with(kEcho) ? std::string(trim(last.substr(kEcho.size()))) : "";
}

}  // namespace

ShellValue ShellExpander::command_value(const std::string& command) {
  if (const std::string printed = echo_without_module(command); !printed.empty()) return {{printed}, {}, false};
  if (!command.starts_with("expr ") || command.find('|') != std::string::npos)
    return unknown_value("$(" + command + ")");
  std::string expression = command.substr(5);
  std::erase(expression, '\\');  // expr 4 \* 2
  ShellValue value = arithmetic(expression);
  if (value.items[0].starts_with("$")) value = unknown_value("$(" + command + ")");
  return value;
}

ShellValue ShellExpander::parameter(const std::string& name, const std::string& rest) {
  const ShellValue* value = find(name);
  const bool is_set = value != nullptr;
  const bool has_colon = rest.starts_with(":");
  const std::string_view op = std::string_view(rest).substr(has_colon && rest.size() > 1 ? 1 : 0);
  if (rest.empty()) return is_set ? *value : unknown_value("$" + name);
  if (!op.empty() && (op[0] == '-' || op[0] == '=')) {
    if (is_set && !(has_colon && value->unknown.empty() && value->joined().empty())) return *value;
    return expand(std::string(op.substr(1)));
  }
  if (!op.empty() && op[0] == '?' && is_set) return *value;
  if (!op.empty() && op[0] == '+' && is_set && value->unknown.empty())
    return value->joined().empty() ? ShellValue{{""}, {}, false} : expand(std::string(op.substr(1)));
  if (is_set && value->unknown.empty() && rest == "##*/") {
    const std::string whole = value->joined();
    return {{whole.substr(whole.rfind('/') == std::string::npos ? 0 : whole.rfind('/') + 1)}, {}, false};
  }
  return unknown_value("${" + name + rest + "}");
}

ShellValue ShellExpander::element(const std::string& name, const std::string& index) {
  const ShellValue* value = find(name);
  if (!value) return unknown_value("${" + name + "[" + index + "]}");
  if (index == "@" || index == "*") return *value;
  const ShellValue at = arithmetic(index);
  const auto number = at.unknown.empty() ? shell_arithmetic(at.items[0]) : std::nullopt;
  if (!number || *number < 0 || std::size_t(*number) >= value->items.size() || !value->unknown.empty())
    return unknown_value("${" + name + "[" + index + "]}");
  return {{value->items[std::size_t(*number)]}, {}, false};
}

ShellValue ShellExpander::braces(const std::string& inside) {
  std::size_t i = 0;
  const bool counts = inside.size() > 1 && inside[0] == '#';
  if (counts) ++i;
  std::string name;
  if (i < inside.size() && (std::isdigit(static_cast<unsigned char>(inside[i])) || inside[i] == '@'))
    name = inside[i++];
  else
    while (i < inside.size() && is_name_char(inside[i])) name += inside[i++];
  if (name.empty()) return unknown_value("${" + inside + "}");
  const std::string rest = inside.substr(i);
  if (rest.starts_with("[")) {
    const std::size_t end = rest.find(']');
    if (end == std::string::npos) return unknown_value("${" + inside + "}");
    const std::string behind = rest.substr(end + 1);
    ShellValue value = element(name, rest.substr(1, end - 1));
    if (!behind.empty()) {  // "${cmd[@]:1}"
      const auto first = behind.starts_with(":") ? shell_arithmetic(behind.substr(1)) : std::nullopt;
      if (!first || *first < 0 || !value.is_array || counts) return unknown_value("${" + inside + "}");
      const auto left_out = std::min(std::size_t(*first), value.items.size());
      value.items.erase(value.items.begin(), value.items.begin() + std::ptrdiff_t(left_out));
      value.places.erase(value.places.begin(),
                         value.places.begin() + std::ptrdiff_t(std::min(left_out, value.places.size())));
      return value;
    }
    if (!counts) return value;
    return value.unknown.empty() ? ShellValue{{std::to_string(value.items.size())}, {}, false} : value;
  }
  if (counts) return unknown_value("${" + inside + "}");
  return parameter(name, rest);
}

ShellValue ShellExpander::expansion() {
  if (take() == '`') return command_value(until_closed('\0', '`'));
  if (starts("((")) {
    skip(2);
    const std::string inside = until_closed('(', ')');
    if (peek() == ')') take();
    return arithmetic(inside);
  }
  if (peek() == '(') {
    take();
    return command_value(until_closed('(', ')'));
  }
  if (peek() == '{') {
    take();
    return braces(until_closed('{', '}'));
  }
  std::string name;
  if (is_name_start(peek()))
    while (is_name_char(peek())) name += take();
  else if (std::string_view("0123456789@*#?!$-").find(peek()) != std::string_view::npos && !is_end())
    name = take();
  if (name.empty()) return {{"$"}, {}, false};
  return parameter(name, "");
}

}  // namespace gpuplan
