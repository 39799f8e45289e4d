#include <algorithm>

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

constexpr int kMostPythonDepth = 48;
constexpr std::size_t kMostPythonItems = 256, kMostPythonValues = 2'000'000;

}  // namespace

const PythonValue* PythonReader::default_of(const std::string& name) const {
  const std::size_t dot = name.find('.');
  const auto& defaults = dot == std::string::npos ? parameters_ : options_;
  const auto found = defaults.find(dot == std::string::npos ? name : name.substr(dot + 1));
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
    return item(variable->second, i, depth);
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

PythonValue PythonReader::loaded(const std::string& name, const PythonCall& call) const {
  PythonValue path = call.positional.empty() ? PythonValue{} : call.positional.front();
  const auto own = functions_.find(name);
  if (call.positional.empty() && !call.keywords.empty()) path = call.keywords.front().second;
  if (call.positional.empty() && call.keywords.empty() && own != functions_.end() && !own->second.empty())
    if (const PythonValue* usual = value_of(own->second.front())) path = *usual;
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
  const bool is_number = name == "int" || name == "float",
             is_dict = name == "dict" || std::ranges::count(around_.makes_dicts, last) > 0;
  const bool is_variable = last == "getenv" || name.ends_with("environ.get") || name.ends_with("environ.setdefault");
  const PythonValue* owner = name == last ? nullptr : value_of(name.substr(0, name.rfind('.')));
  if (!owner && name != last) owner = attribute(name.substr(0, name.rfind('.')));
  const bool is_item = last == "get" && owner && owner->kind == PythonValue::Kind::Dict;
  if (owner && owner->is_missing && last == "get") return *owner;
  if (owner && owner->is_text && (last == "read" || last == "read_text")) return *owner;
  if (owner && owner->is_text && last == "lower") return python_literal(to_lower(owner->text), true);
  const bool is_load = std::ranges::count(around_.loads, name) > 0 || loading_.contains(name);
  const bool is_same = name == "open" || last == "Path" || name == "list" || name == "tuple" || name == "sorted";
  const bool is_attribute = name == "getattr";
  if (!(is_number || is_dict || is_variable || is_item || is_load || is_same || is_attribute || name == "str") ||
      depth > kMostPythonDepth / 4)
    return unknown_python_value(name + "(...)");
  PythonCall call{.name = name, .line = tokens_[end].line, .positional = {}, .keywords = {}, .open = {}};
  while (at < end) read_argument(at, end, call);
  if (is_dict) return dict_of(call);
  if (is_load) return item(loaded(name, call), i, depth + 1);
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
  if (value.kind != PythonValue::Kind::Literal || (!is_default && call.positional.size() != 1))
    return unknown_python_value(name + "(...)");
  if (is_variable || is_item) {
    if (!is_default) return unknown_python_value(name + "(...)");
    if (is_variable) value.argument = "variable " + key + " of the environment";
  } else if (is_number) {
    value.is_text = false;
    if (!number_of(value)) return unknown_python_value(name + "(...)");
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
      if (item.is_text && list.keys.size() < kMostPythonItems) list.keys.emplace_back(item.text, std::move(value));
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
