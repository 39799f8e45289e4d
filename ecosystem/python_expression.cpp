#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "base/names.h"
#include "ecosystem/python_reader.h"

namespace gpuplan {
namespace {

using Token = PythonToken;

/// torch.bfloat16 and torch.float16.
bool is_half_type(const PythonValue& value) {
  return value.kind == PythonValue::Kind::Name && (value.text == "torch.bfloat16" || value.text == "torch.float16");
}

/// The folder so many steps above a path.
PythonValue steps_up(PythonValue path, int steps) {
  for (; steps > 0 && path.text.size() < 4096; --steps) {
    const std::size_t slash = path.text.rfind('/');
    const bool is_above = path.text.empty() || path.text.ends_with("..");
    path.text = is_above                     ? path.text + (path.text.empty() ? ".." : "/..")
                : slash == std::string::npos ? ""
                                             : path.text.substr(0, slash);
  }
  return path;
}

/// `"a,b".split(",")`
PythonValue split_text(const PythonValue& text, const std::string& by) {
  PythonValue list;
  if (by.size() != 1 || text.text.size() > 4096) return unknown_python_value(text.text + ".split(...)");
  list.kind = PythonValue::Kind::List;
  for (const std::string& part : split(text.text, by[0])) list.items.push_back(python_literal(part, true));
  return list;
}

/// `os.path.join("a", "b")`
PythonValue joined_path(const PythonCall& call) {
  PythonValue path = python_literal("", true);
  for (const PythonValue& part : call.positional) {
    if (!part.is_text) return unknown_python_value("os.path.join(...)");
    path = combined("/", path, part).value_or(path);
  }
  return path;
}

constexpr int kMostPythonDepth = 48;
constexpr std::size_t kMostPythonItems = 256, kMostPythonValues = 2'000'000;

}  // namespace

const PythonValue* PythonReader::default_of(const std::string& name) const {
  const std::size_t dot = name.find('.');
  const auto& defaults = dot == std::string::npos ? parameters_ : options_;
  const std::string key = dot == std::string::npos ? name : name.substr(dot + 1);
  auto found = defaults.find(key);
  if (found == defaults.end() && dot != std::string::npos) {
    found = fields_.find(key);
    if (found == fields_.end()) return nullptr;
    return found->second.kind != PythonValue::Kind::Unknown ? &found->second : nullptr;
  }
  return found != defaults.end() && found->second.kind != PythonValue::Kind::Unknown ? &found->second : nullptr;
}

PythonValue PythonReader::expression(std::size_t& i, int depth) {
  const std::size_t begin = i;
  if (++num_values_ > kMostPythonValues) throw InputError(name_, "has too many values", "give the settings as flags");
  PythonValue value = disjunction(i, depth);
  if (tokens_.is_name(i, "if") && depth < kMostPythonDepth) value = conditional(std::move(value), i, depth);
  if (is_end(i)) return value;
  std::string written = tokens_[begin].text;  // an index, a comprehension
  while (!is_end(i)) {
    const bool is_open = tokens_[i].kind == Token::Kind::Open;
    if (written.size() < 60 && i > begin)
      written += is_open ? tokens_[i].text + "..." + tokens_[tokens_[i].partner].text : " " + tokens_[i].text;
    i = is_open ? tokens_[i].partner + 1 : i + 1;
  }
  return unknown_python_value(written);
}

PythonValue PythonReader::disjunction(std::size_t& i, int depth) {
  PythonValue value = conjunction(i, depth);
  while (tokens_.is_name(i, "or")) {
    PythonValue other = conjunction(++i, depth);
    const auto holds = truth_of(value);
    if (!holds) value = unknown_python_value(value.text + " or " + other.text);
    if (holds == false) value = std::move(other);
  }
  return value;
}

PythonValue PythonReader::conjunction(std::size_t& i, int depth) {
  PythonValue value = comparison(i, depth);
  while (tokens_.is_name(i, "and")) {
    PythonValue other = comparison(++i, depth);
    const auto holds = truth_of(value);
    const bool asks_card = value.asks_card;
    if (!holds) value = unknown_python_value(value.text + " and " + other.text);
    if (holds == true) value = std::move(other);
    value.asks_card = value.asks_card || (asks_card && holds == true);
  }
  return value;
}

PythonValue PythonReader::comparison(std::size_t& i, int depth) {
  PythonValue value = sum(i, depth);
  const bool is_in = tokens_.is_name(i, "in") || (tokens_.is_name(i, "not") && tokens_.is_name(i + 1, "in"));
  const bool is_same = tokens_.is_mark(i, "==") || tokens_.is_mark(i, "!=") || tokens_.is_name(i, "is");
  if ((!is_in && !is_same) || depth > kMostPythonDepth) return value;
  const bool is_denied = tokens_.is_mark(i, "!=") || tokens_.is_name(i, "not") || tokens_.is_name(i + 1, "not");
  i += !tokens_.is_mark(i, "!=") && is_denied ? 2 : 1;
  const PythonValue other = sum(i, depth + 1);
  const auto holds = is_in ? contains(other, value) : are_equal(value, other);
  if (!holds) return unknown_python_value(value.text + (is_in ? " in " : " == ") + other.text);
  PythonValue result = python_literal(*holds != is_denied ? "true" : "false");
  result.asks_card = value.asks_card || other.asks_card;
  return result;
}

PythonValue PythonReader::sum(std::size_t& i, int depth) {
  PythonValue value = operand(i, depth);
  while (tokens_.is_mark(i, "+") || tokens_.is_mark(i, "-") || tokens_.is_mark(i, "*") || tokens_.is_mark(i, "/") ||
         tokens_.is_mark(i, "//") || tokens_.is_mark(i, "**")) {
    const std::string sign = tokens_[i++].text;
    const PythonValue right = operand(i, depth);
    const auto both = combined(sign, value, right);
    value = both ? *both : unknown_python_value(value.kind == PythonValue::Kind::Unknown ? value.text : right.text);
  }
  return value;
}

PythonValue PythonReader::conditional(PythonValue value, std::size_t& i, int depth) {
  std::size_t at = i + 1;
  const auto holds = truth_of(disjunction(at, depth + 1));
  if (!tokens_.is_name(at, "else")) return value;
  if (!holds) {
    std::size_t after = at + 1;
    if (!is_half_type(value) || !is_half_type(expression(after, depth + 1))) return value;
    i = after;  // of as many bytes, whichever it is
    return value;
  }
  i = at + 1;
  PythonValue other = expression(i, depth + 1);
  return *holds ? std::move(value) : std::move(other);
}

bool PythonReader::is_end(std::size_t i) const {
  return i >= tokens_.size() || tokens_[i].kind == Token::Kind::NewLine || tokens_[i].kind == Token::Kind::Close ||
         tokens_.is_mark(i, ",") || tokens_.is_mark(i, ":") || tokens_.is_mark(i, ";");
}

PythonValue PythonReader::operand(std::size_t& i, int depth) {
  if (is_end(i) || depth > kMostPythonDepth) return unknown_python_value("");
  const Token& token = tokens_[i];
  if (token.kind == Token::Kind::Number) return ++i, python_literal(token.text);
  if (token.kind == Token::Kind::Text) return text(i);
  if (token.kind == Token::Kind::Name) return named(i, depth);
  if (token.kind == Token::Kind::Open) return bracket(i, depth);
  if (tokens_.is_mark(i, "-") || tokens_.is_mark(i, "+")) {
    const bool is_minus = token.text == "-";
    const PythonValue inner = operand(++i, depth + 1);
    if (!number_of(inner)) return unknown_python_value(inner.text);
    return is_minus ? python_literal("-" + inner.text) : inner;
  }
  ++i;
  return unknown_python_value(token.text);
}

std::optional<std::string> PythonReader::formatted(const std::string& text) const {
  std::string filled;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '{') {
      filled += text[i];
      continue;
    }
    const std::size_t end = text.find('}', i);
    if (end == std::string::npos) return {};
    const auto variable = variables_.find(std::string(trim(text.substr(i + 1, end - i - 1))));
    if (variable == variables_.end() || variable->second.kind != PythonValue::Kind::Literal) return {};
    if (filled.size() < 4096) filled += variable->second.text;
    i = end;
  }
  return filled;
}

PythonValue PythonReader::text(std::size_t& i) const {
  std::string joined;
  bool is_known = true;
  for (; i < tokens_.size() && tokens_[i].kind == Token::Kind::Text; ++i) {
    const Token& token = tokens_[i];
    const auto filled = token.is_format ? formatted(token.text) : token.text;
    is_known = is_known && filled;
    if (joined.size() < 4096) joined += filled.value_or(token.text);
  }
  return is_known ? python_literal(joined, true) : unknown_python_value(joined);
}

PythonValue PythonReader::named(std::size_t& i, int depth) {
  if (tokens_[i].text == "not") {
    const PythonValue inner = comparison(++i, depth + 1);
    if (const auto holds = truth_of(inner)) {
      PythonValue value = python_literal(*holds ? "false" : "true");
      value.asks_card = inner.asks_card;
      return value;
    }
    return unknown_python_value("not " + inner.text);
  }
  const std::string name = tokens_.dotted(i);
  const std::string last = name.substr(name.rfind('.') + 1);
  if (name == "True" || name == "False" || name == "None")
    return python_literal(name == "True" ? "true" : name == "False" ? "false" : "null");
  if (tokens_.is_open(i, '(')) {
    if (std::ranges::count(around_.assumed, last) == 0) return called(name, i, depth);
    i = tokens_[i].partner + 1;
    PythonValue value = python_literal("true");
    value.asks_card = true;
    return value;
  }
  if (const auto variable = variables_.find(name); variable != variables_.end())
    return item(steps_of_path(variable->second, i), i, depth);
  if (const auto path = variables_.find(name.substr(0, name.find('.')));
      path != variables_.end() && path->second.is_text) {
    PythonValue value = path->second;  // ROOT.parent
    for (const std::string& step : split(name, '.'))
      if (step == "parent") value = steps_up(value, 1);
    if (name.ends_with(".parent")) return steps_of_path(std::move(value), i);
  }
  if (const PythonValue* inner = attribute(name)) return item(*inner, i, depth);
  if (std::ranges::count(around_.usual, last) > 0 && tokens_.is_open(i, '[')) {
    i = tokens_[i].partner + 1;
    PythonValue value = unknown_python_value(name);
    value.is_usual = true;
    return value;
  }
  const PythonValue* of_arguments = default_of(name);
  const bool is_unset = of_arguments && of_arguments->text == "null";
  if (of_arguments && !is_unset) return item(*of_arguments, i, depth);
  PythonValue value =
      unknown_python_value(name);  // torch.bfloat16, TaskType.CAUSAL_LM: a name, or a value of the run: args.lr
  value.is_unset = is_unset;
  if (name.find('.') != std::string::npos) value.kind = PythonValue::Kind::Name;
  return value;
}

PythonValue PythonReader::item(PythonValue value, std::size_t& i, int depth) {
  while (depth < kMostPythonDepth / 4) {
    const bool is_get = tokens_.is_mark(i, ".") && tokens_.is_name(i + 1, "get") && tokens_.is_open(i + 2, '(');
    if (!is_get && !tokens_.is_open(i, '[')) break;
    const std::size_t open = is_get ? i + 2 : i, end = tokens_[open].partner;
    if (!value.is_missing) {
      std::size_t at = open + 1;
      const PythonValue key = expression(at, depth + 1);
      PythonValue other = python_literal("null");
      if (is_get && tokens_.is_mark(at, ",")) other = expression(++at, depth + 1);
      const PythonValue* found = find_item(value, key);
      if (!found && is_get && value.kind == PythonValue::Kind::Dict && key.is_text) found = &other;
      if (!found || at != end) break;
      PythonValue inner = *found;
      value = std::move(inner);
    }
    i = end + 1;
  }
  return value;
}

const PythonValue* PythonReader::value_of(const std::string& name) const {
  if (const auto variable = variables_.find(name); variable != variables_.end()) return &variable->second;
  const PythonValue* parameter = default_of(name);
  return parameter && parameter->text != "null" ? parameter : nullptr;
}

const PythonValue* PythonReader::attribute(const std::string& name) const {
  std::size_t dot = name.find('.');
  const PythonValue* value = dot == std::string::npos ? nullptr : value_of(name.substr(0, dot));
  while (value && value->kind == PythonValue::Kind::Dict && dot != std::string::npos) {
    const std::size_t next = name.find('.', dot + 1);
    value = find_item(*value,
                      python_literal(name.substr(dot + 1, next == std::string::npos ? next : next - dot - 1), true));
    dot = next;
  }
  return value && dot == std::string::npos ? value : nullptr;
}

PythonValue PythonReader::steps_of_path(PythonValue path, std::size_t& i) const {
  while (path.is_text && tokens_.is_mark(i, ".") && i + 1 < tokens_.size()) {
    const std::string& step = tokens_[i + 1].text;
    if (step == "parent") {
      path = steps_up(path, 1);
      i += 2;
    } else if ((step == "resolve" || step == "absolute" || step == "expanduser") && tokens_.is_open(i + 2, '(')) {
      i = tokens_[i + 2].partner + 1;
    } else if (step == "split" && tokens_.is_open(i + 2, '(')) {
      path = split_text(path, tokens_[i + 3].text);
      i = tokens_[i + 2].partner + 1;
    } else if (step == "parents" && tokens_.is_open(i + 2, '[') && as_number(tokens_[i + 3].text)) {
      const double above = std::clamp(*as_number(tokens_[i + 3].text), 0.0, 100.0);
      path = steps_up(path, int(above) + 1);  // checked
      i = tokens_[i + 2].partner + 1;
    } else {
      break;
    }
  }
  return path;
}

std::pair<std::size_t, std::size_t> PythonReader::body_of(const std::string& function) const {
  for (std::size_t i = 0; i + 3 < tokens_.size(); ++i) {
    if (!tokens_.is_name(i, "def") || !tokens_.is_name(i + 1, function)) continue;
    std::size_t end = i + 3;
    for (; end + 2 < tokens_.size(); ++end) {
      const bool begins = tokens_[end - 1].kind == Token::Kind::NewLine;
      if (begins && tokens_[end].kind != Token::Kind::NewLine && tokens_[end].column <= tokens_[i].column) break;
    }
    return {i + 3, end};
  }
  return {0, 0};
}

PythonValue PythonReader::opened_by(const std::string& function) {
  const auto [begin, end] = body_of(function);
  for (std::size_t at = begin; at < end; ++at)
    if (tokens_.is_name(at, "open") && tokens_.is_open(at + 1, '(')) {
      std::size_t path = at + 2;
      return expression(path, 0);
    }
  return {};
}

std::optional<PythonValue> PythonReader::handed_back(const std::string& name, const PythonCall& call) const {
  const auto own = functions_.find(name);
  if (own == functions_.end()) return {};
  std::string last;
  const auto [begin, end] = body_of(name);
  for (std::size_t at = begin; at < end; ++at)
    if (tokens_.is_name(at, "return")) last = tokens_[at + 2].kind == Token::Kind::NewLine ? tokens_[at + 1].text : "";
  for (std::size_t k = 0; k < std::min(call.positional.size(), own->second.size()); ++k)
    if (own->second[k] == last && call.positional[k].is_text) return call.positional[k];
  return {};
}

PythonValue PythonReader::variable_of(const std::string& key, PythonValue usual) const {
  const auto set = around_.environment.find(key);
  if (set == around_.environment.end()) {
    usual.argument = "variable " + key + " of the environment";
    return usual;
  }
  return set->second;
}

std::optional<PythonValue> PythonReader::of_environment(const std::string& name, const PythonCall& call) const {
  const auto own = functions_.find(name);
  if (own == functions_.end() || own->second.size() != 2 || call.positional.size() != 2 || !call.positional[0].is_text)
    return {};
  bool asks = false, says_flag = false;
  const auto [begin, end] = body_of(name);
  for (std::size_t at = begin; at < end; ++at) {
    const bool is_call = tokens_.is_name(at, "getenv");
    const bool is_asked = is_call || (tokens_.is_name(at, "environ") && tokens_.is_name(at + 2, "get"));
    const std::size_t open = is_call ? at + 1 : at + 3;
    asks = asks || (is_asked && tokens_.is_open(open, '(') && tokens_.is_name(open + 1, own->second[0]));
    says_flag = says_flag || tokens_.is_name(at, "True");
  }
  if (!asks) return {};
  PythonValue value = variable_of(call.positional[0].text, call.positional[1]);
  if (value.kind != PythonValue::Kind::Literal) return {};
  const std::string text = to_lower(value.text), argument = value.argument;
  if (says_flag && (text == "1" || text == "true" || text == "yes" || text == "on")) value = python_literal("true");
  if (says_flag && (text == "0" || text == "false" || text == "no" || text == "off")) value = python_literal("false");
  if (as_number(value.text) && call.positional[1].is_text == false) value.is_text = false;
  value.argument = argument;
  return value;
}

PythonValue PythonReader::popped(const std::string& owner, const PythonCall& call) {
  const auto variable = variables_.find(owner);
  if (variable == variables_.end() || call.positional.empty() || !call.positional[0].is_text ||
      variable->second.kind != PythonValue::Kind::Dict)
    return unknown_python_value(owner + ".pop(...)");
  PythonValue value = call.positional.size() > 1 ? call.positional[1] : unknown_python_value(owner + ".pop(...)");
  if (const PythonValue* found = find_item(variable->second, call.positional[0])) value = *found;
  std::erase_if(variable->second.keys, [&](const auto& key) { return key.first == call.positional[0].text; });
  return value;
}

PythonValue PythonReader::loaded(const std::string& name, const PythonCall& call) {
  PythonValue path = call.positional.empty() ? PythonValue{} : call.positional.front();
  const auto own = functions_.find(name);
  if (call.positional.empty() && !call.keywords.empty()) path = call.keywords.front().second;
  if (call.positional.empty() && call.keywords.empty() && own != functions_.end() && !own->second.empty())
    if (const PythonValue* usual = value_of(own->second.front())) path = *usual;
  if (call.positional.empty() && call.keywords.empty() && own != functions_.end() && own->second.empty())
    path = opened_by(name);
  if (!path.is_text || !around_.read_file) return unknown_python_value(name + "(...)");
  return around_.read_file(path.text);
}

PythonValue PythonReader::attribute_by_name(const PythonCall& call) const {
  const std::string& owner = call.positional[0].text;
  PythonValue value;
  value.kind = PythonValue::Kind::Name;
  value.text = owner + "." + call.positional[1].text;
  if (owner == "torch") return value;
  if (const PythonValue* known = default_of(value.text)) return *known;
  return call.positional.size() > 2 ? call.positional[2] : unknown_python_value(value.text);
}

PythonValue PythonReader::called(const std::string& name, std::size_t& i, int depth) {
  const std::size_t end = tokens_[i].partner;
  std::size_t at = i + 1;
  i = end + 1;
  const std::string last = name.substr(name.rfind('.') + 1);
  if (const auto answer = around_.answers.find(name); answer != around_.answers.end())
    return python_literal(answer->second ? "true" : "false");
  if (around_.num_gpus > 0 && std::ranges::count(around_.counts_gpus, name) > 0)
    return python_literal(std::to_string(around_.num_gpus));
  const bool is_flag = name == "bool";
  const bool is_number = name == "int" || name == "float",
             is_dict = name == "dict" || std::ranges::count(around_.makes_dicts, last) > 0;
  const bool is_variable = last == "getenv" || name.ends_with("environ.get") || name.ends_with("environ.setdefault");
  const PythonValue* owner = name == last ? nullptr : value_of(name.substr(0, name.rfind('.')));
  if (!owner && name != last) owner = attribute(name.substr(0, name.rfind('.')));
  const bool is_item = last == "get" && owner && owner->kind == PythonValue::Kind::Dict;
  if (owner && owner->is_missing && last == "get") return *owner;
  if (owner && owner->is_text && (last == "read" || last == "read_text")) return *owner;
  if (owner && owner->is_text && last == "split") return split_text(*owner, tokens_[at].text);
  if (owner && owner->is_text && last == "lower") return python_literal(to_lower(owner->text), true);
  const bool is_load = std::ranges::count(around_.loads, name) > 0 || loading_.contains(name);
  const bool is_path = last == "Path" || name.ends_with("path.abspath") || name.ends_with("path.realpath") ||
                       name.ends_with("path.expanduser") || name.ends_with("path.dirname") ||
                       name.ends_with("path.join");
  const bool is_same = name == "open" || is_path || name == "list" || name == "tuple" || name == "sorted";
  const bool is_popped = last == "pop" && owner && owner->kind == PythonValue::Kind::Dict;
  const bool is_own = functions_.contains(name);
  const bool is_attribute = name == "getattr";
  if (!(is_number || is_dict || is_variable || is_item || is_load || is_same || is_attribute || is_popped || is_own ||
        is_flag || name == "str") ||
      depth > kMostPythonDepth / 4)
    return unknown_python_value(name + "(...)");
  PythonCall call{.name = name, .line = tokens_[end].line, .positional = {}, .keywords = {}, .open = {}};
  while (at < end) read_argument(at, end, call);
  if (is_dict) return dict_of(call);
  if (is_flag && call.positional.size() == 1)
    if (const auto holds = truth_of(call.positional.front())) return python_literal(*holds ? "true" : "false");
  if (is_flag) return unknown_python_value(name + "(...)");
  if (is_popped) return popped(name.substr(0, name.size() - 4), call);
  if (is_load) return item(loaded(name, call), i, depth + 1);
  if (is_own) {
    auto own = of_environment(name, call);
    if (!own) own = handed_back(name, call);
    return own ? steps_of_path(*std::move(own), i) : unknown_python_value(name + "(...)");
  }
  if (is_path && !call.positional.empty() && call.positional.front().is_text) {
    PythonValue path = last == "join" || call.positional.size() > 1 ? joined_path(call) : call.positional.front();
    if (last == "dirname") path = steps_up(path, 1);
    return steps_of_path(std::move(path), i);
  }
  if (is_attribute && call.positional.size() > 1 && call.positional[1].is_text) return attribute_by_name(call);
  if (is_same && !call.positional.empty() && call.positional.front().kind != PythonValue::Kind::Unknown)
    return call.positional.front();
  if (call.positional.empty()) return unknown_python_value(name + "(...)");
  PythonValue value = call.positional.back();
  const std::string key = call.positional.front().text;
  if (is_item)
    if (const PythonValue* inner = find_item(*owner, call.positional.front())) return item(*inner, i, depth + 1);
  if (is_item && call.positional.size() == 1) return python_literal("null");
  const bool is_default = (is_variable || is_item) && call.positional.size() == 2;
  if (is_item && call.positional.front().kind != PythonValue::Kind::Literal)
    return unknown_python_value(name + "(...)");  // of a key that a run alone shows
  if (is_variable && around_.environment.contains(key)) return variable_of(key, {});
  if (is_item && is_default) return value;
  if (value.kind != PythonValue::Kind::Literal || (!is_default && call.positional.size() != 1))
    return unknown_python_value(name + "(...)");
  if (is_variable || is_item) {
    if (!is_default) return unknown_python_value(name + "(...)");
    if (is_variable) value = variable_of(key, std::move(value));
  } else if (is_number) {
    value.is_text = false;
    const auto number = number_of(value);
    if (!number) return unknown_python_value(name + "(...)");
    if (name == "int" && *number != std::floor(*number) && std::abs(*number) < 1e15)
      value.text = std::to_string(std::int64_t(*number));
  } else {
    value.is_text = true;
  }
  return value;
}

PythonValue PythonReader::bracket(std::size_t& i, int depth) {
  const std::size_t end = tokens_[i].partner;
  const char kind = tokens_[i].text[0];
  PythonValue list;
  list.kind = kind == '{' ? PythonValue::Kind::Dict : PythonValue::Kind::List;
  bool has_comma = kind == '[', is_known = true;
  const std::string first = i + 1 < end ? tokens_[i + 1].text : "";
  if (kind == '[' && tokens_.is_name(i + 2, "for") && tokens_.is_name(i + 3, first) && tokens_.is_name(i + 4, "in")) {
    std::size_t at = i + 5;  // [name for name in names if it is there]
    i = end + 1;
    return operand(at, depth + 1);
  }
  for (++i; i < end;) {
    PythonValue item = expression(i, depth + 1);
    if (kind == '{' && tokens_.is_mark(i, ":")) {
      PythonValue value = expression(++i, depth + 1);
      if ((item.is_text || number_of(item)) && list.keys.size() < kMostPythonItems)
        list.keys.emplace_back(item.text, std::move(value));
    } else if (list.items.size() < kMostPythonItems) {
      if (kind == '{') list.kind = PythonValue::Kind::List;  // a set
      list.items.push_back(std::move(item));
    }
    if (i < end && !tokens_.is_mark(i, ",")) is_known = false;
    has_comma = has_comma || tokens_.is_mark(i, ",");
    tokens_.skip_to_comma(i, end);
  }
  i = end + 1;
  if (!is_known) return unknown_python_value(kind == '[' ? "[...]" : "{...}");
  if (kind == '(' && !has_comma && list.items.size() == 1) return list.items.front();
  return list;
}

}  // namespace gpuplan
