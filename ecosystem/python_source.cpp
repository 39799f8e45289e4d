#include "ecosystem/python_source.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "ecosystem/python_tokens.h"

namespace gpuplan {
namespace {

using Token = PythonToken;

constexpr int kMostPythonDepth = 48;
constexpr std::size_t kMostPythonItems = 256, kMostPythonValues = 2'000'000;

PythonValue literal_of(std::string text, bool is_text = false) {
  PythonValue value;
  value.kind = PythonValue::Kind::Literal;
  value.text = std::move(text);
  value.is_text = is_text;
  return value;
}

std::optional<double> number_of(const PythonValue& value) {
  if (value.kind != PythonValue::Kind::Literal || value.is_text) return {};
  return as_number(value.text);
}

/// A sum, difference, product or quotient of two numbers, or two texts one after the other.
std::optional<PythonValue> combined(const std::string& sign, const PythonValue& a, const PythonValue& b) {
  if (sign == "+" && a.is_text && b.is_text && a.text.size() + b.text.size() < 4096)
    return literal_of(a.text + b.text, true);
  const auto x = number_of(a), y = number_of(b);
  if (!x || !y) return {};
  const double result = sign == "+"    ? *x + *y
                        : sign == "-"  ? *x - *y
                        : sign == "*"  ? *x * *y
                        : sign == "/"  ? *x / *y
                        : sign == "//" ? std::floor(*x / *y)
                        : sign == "**" ? std::pow(*x, *y)
                                       : std::nan("");
  if (!std::isfinite(result) || std::abs(result) > 1e15) return {};
  const bool is_whole = sign != "/" && result == std::floor(result) &&
                        a.text.find_first_of(".eE") == std::string::npos &&
                        b.text.find_first_of(".eE") == std::string::npos;
  return literal_of(is_whole ? fmt::format("{}", std::int64_t(result)) : fmt::format("{}", result));
}

/// Reads expressions, names that stand for literals, and the wanted calls.
class PythonReader {
 public:
  PythonReader(const std::string& text, const std::string& name, const std::vector<std::string>& names,
               const std::vector<std::string>& assumed, const std::map<std::string, PythonValue>& given)
      : name_(name),
        names_(names),
        assumed_(assumed),
        given_(given),
        tokens_(read_python_tokens(text, name)) {}

  std::vector<PythonCall> read() {
    for (std::size_t i = 0; i < tokens_.size(); ++i) read_argument_default(i);
    for (const auto& [name, value] : given_) options_[name] = value;
    read_statements();
    if (passed_.empty()) return std::move(calls_);
    // what the calls give to parameters stands behind the functions that read them
    for (auto& [name, value] : passed_) parameters_.try_emplace(name, std::move(value));
    variables_.clear(), conditions_.clear(), calls_.clear();
    skipped_column_ = class_column_ = body_column_ = function_column_ = -1;
    outside_.clear(), inside_.clear();
    num_values_ = 0;
    functions_.clear();
    read_statements();
    return std::move(calls_);
  }

 private:
  void read_statements() {
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
      if (tokens_[i].kind == Token::Kind::Name && (i == 0 || !is_mark(i - 1, "."))) read_call(i);
    }
  }

  bool is_mark(std::size_t i, std::string_view text) const {
    return i < tokens_.size() && tokens_[i].kind == Token::Kind::Mark && tokens_[i].text == text;
  }
  bool is_open(std::size_t i, char bracket) const {
    return i < tokens_.size() && tokens_[i].kind == Token::Kind::Open && tokens_[i].text[0] == bracket;
  }

  /// `a.b.c` from i on; i is behind it.
  std::string dotted(std::size_t& i) const {
    std::string name = tokens_[i++].text;
    while (is_mark(i, ".") && i + 1 < tokens_.size() && tokens_[i + 1].kind == Token::Kind::Name) {
      name += "." + tokens_[i + 1].text;
      i += 2;
    }
    return name;
  }

  /// `add_argument("--rank", default=8)`, and `def train(rank: int = 8)` whose parameters a command line may set.
  void read_argument_default(std::size_t i) {
    if (tokens_[i].kind != Token::Kind::Name) return;
    if (tokens_[i].text == "add_argument" && is_open(i + 1, '(')) return read_option(i + 1);
    if (tokens_[i].text != "def" || i + 1 >= tokens_.size() || !is_open(i + 2, '(')) return;
    const std::size_t end = tokens_[i + 2].partner;
    std::vector<std::string>& parameters = functions_[tokens_[i + 1].text];
    parameters.clear();
    for (std::size_t at = i + 3; at < end; skip_to_comma(at, end)) {
      const std::string name = tokens_[at].kind == Token::Kind::Name ? tokens_[at].text : "";
      while (at < end && !is_mark(at, "=") && !is_mark(at, ","))
        at = tokens_[at].kind == Token::Kind::Open ? tokens_[at].partner + 1 : at + 1;
      parameters.push_back(name);
      if (!name.empty() && is_mark(at, "=")) keep_default(parameters_, name, expression(++at, 0));
    }
  }

  /// `training(config)` of a function of the text gives its parameter a value; two different ones say nothing, and a
  /// parameter that is handed on under its name says nothing new.
  void bind_parameters(std::size_t i) {
    const auto function = functions_.find(tokens_[i].text);
    if (function == functions_.end() || !is_open(i + 1, '(') || (i > 0 && tokens_[i - 1].text == "def")) return;
    PythonCall call;
    const std::size_t end = tokens_[i + 1].partner;
    for (std::size_t at = i + 2; at < end;) read_argument(at, end, call);
    for (std::size_t k = 0; k < std::min(call.positional.size(), function->second.size()); ++k)
      call.keywords.emplace_back(function->second[k], std::move(call.positional[k]));
    for (auto& [name, value] : call.keywords) {
      if (value.is_unset) value = literal_of("null");
      const bool is_known = value.kind != PythonValue::Kind::Name && value.kind != PythonValue::Kind::Unknown;
      if (name.empty() || (!is_known && value.text == name)) continue;
      const auto [before, is_new] = passed_.try_emplace(name, is_known ? value : unknown(name));
      if (!is_new && !same(before->second, value)) before->second = unknown(name);
    }
  }

  void read_option(std::size_t i) {
    const std::size_t end = tokens_[i].partner;
    std::string name;
    std::optional<PythonValue> value;
    for (++i; i < end; skip_to_comma(i, end)) {
      if (tokens_[i].kind == Token::Kind::Text && tokens_[i].text.starts_with("--") && name.empty())
        name = tokens_[i].text.substr(2);
      if (tokens_[i].kind != Token::Kind::Name || !is_mark(i + 1, "=")) continue;
      const std::string key = tokens_[i].text;
      i += 2;
      PythonValue given = expression(i, 0);
      if (key == "default") value = std::move(given);
      if (key == "action" && given.text == "store_true" && !value) value = literal_of("false");
      if (key == "dest" && given.is_text) name = given.text;
    }
    std::ranges::replace(name, '-', '_');
    if (!name.empty() && value) keep_default(options_, name, std::move(*value));
  }

  /// Two different defaults of one name say nothing.
  void keep_default(std::map<std::string, PythonValue>& defaults, const std::string& name, PythonValue value) const {
    const auto before = defaults.find(name);
    if (before != defaults.end() && !same(before->second, value)) value = unknown(name);
    value.argument = "argument " + name;
    defaults[name] = std::move(value);
  }

  /// `args.rank`, and the bare name of a parameter; null where the default is None.
  const PythonValue* default_of(const std::string& name) const {
    const std::size_t dot = name.find('.');
    const auto& defaults = dot == std::string::npos ? parameters_ : options_;
    const auto found = defaults.find(dot == std::string::npos ? name : name.substr(dot + 1));
    return found != defaults.end() && found->second.kind != PythonValue::Kind::Unknown ? &found->second : nullptr;
  }

  /// A call of a branch that is not taken, as one without a name.
  void name_skipped(std::size_t i) {
    const int line = tokens_[i].line;
    if (tokens_[i].kind != Token::Kind::Name || (i > 0 && is_mark(i - 1, "."))) return;
    const std::string name = dotted(i);
    if (!is_open(i, '(') || wanted_name(name) == names_.end()) return;
    calls_.push_back({.name = "", .line = line, .positional = {}, .keywords = {}, .open = {name}});
  }

  std::vector<std::string>::const_iterator wanted_name(const std::string& name) const {
    return std::find_if(names_.begin(), names_.end(),
                        [&](const std::string& own) { return name == own || name.ends_with("." + own); });
  }

  /// Says whether the statement stands in a branch that is not taken: below `if args.qlora:` where the argument's
  /// default is false, or its `else:` where it is true.
  bool skips_branch(std::size_t i) {
    const int column = tokens_[i].column;
    if (skipped_column_ >= 0 && column > skipped_column_) return true;
    skipped_column_ = -1;
    std::erase_if(conditions_, [&](const auto& condition) { return condition.first > column; });
    if (tokens_[i].kind != Token::Kind::Name) return false;
    const auto before = conditions_.find(column);
    const bool is_else = tokens_[i].text == "else" && is_mark(i + 1, ":");
    if (is_else && before != conditions_.end() && before->second) skipped_column_ = column;
    if (tokens_[i].text != "elif" && !is_else) conditions_.erase(column);
    if (tokens_[i].text != "if") return false;
    std::size_t at = i + 1;
    const PythonValue condition = operand(at, 0);
    const bool is_known = condition.kind == PythonValue::Kind::Literal && is_mark(at, ":") &&
                          (condition.text == "true" || condition.text == "false") && !condition.asks_card;
    if (!is_known) return false;
    conditions_[column] = condition.text == "true";
    if (condition.text == "false") skipped_column_ = column;
    return false;
  }

  /// Of a class the fields have their values where nothing else is said: `Config.rank`, `self.rank`.
  void read_statement(std::size_t i) {
    if (tokens_[i].column <= class_column_) class_column_ = body_column_ = -1;
    if (class_column_ >= 0 && body_column_ < 0) body_column_ = tokens_[i].column;
    if (tokens_[i].kind != Token::Kind::Name) return;
    if (tokens_[i].column == body_column_ && is_mark(i + 1, "=")) {
      std::size_t at = i + 2;
      PythonValue value = expression(at, 0);
      if (value.kind != PythonValue::Kind::Unknown) keep_default(options_, tokens_[i].text, std::move(value));
    }
    if (tokens_[i].text == "class" && body_column_ < 0) class_column_ = tokens_[i].column;
    if (tokens_[i].text == "def" && function_column_ < 0) function_column_ = tokens_[i].column;
    is_open(i + 1, '[') ? read_item(i) : read_assignment(i);
    const bool is_changed = is_mark(i + 1, ".") && i + 2 < tokens_.size() && tokens_[i + 2].text == "update";
    if (is_changed) variables_.erase(tokens_[i].text);
  }

  /// `config["rank"] = 8`
  void read_item(std::size_t i) {
    const auto variable = variables_.find(tokens_[i].text);
    std::size_t at = tokens_[i + 1].partner + 1;
    if (variable == variables_.end() || !is_mark(at, "=")) return;
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

  /// A name that a function assigns is its own: the one outside is as before.
  void leave_function(int column) {
    if (function_column_ < 0 || column > function_column_) return;
    function_column_ = -1;
    for (auto& [name, value] : outside_) variables_[name] = std::move(value);
    outside_.clear();
  }

  /// NAME = expression, NAME: type = expression. A name that gets another value in an inner block is not known.
  void read_assignment(std::size_t i) {
    if (tokens_[i].kind != Token::Kind::Name) return;
    const std::string name = tokens_[i].text;
    const bool is_inner = tokens_[i].column > 0;
    ++i;
    const bool has_type = is_mark(i, ":");
    if (has_type)
      while (i < tokens_.size() && tokens_[i].kind != Token::Kind::NewLine && !is_mark(i, "=")) ++i;
    if (has_type && is_inner && is_mark(i, "=")) read_field(name, i + 1);
    if (!is_mark(i, "=")) {
      if (is_mark(i, "+=") || is_mark(i, "-=") || is_mark(i, "*=")) variables_.erase(name);
      return;
    }
    PythonValue value = expression(++i, 0);
    if (i < tokens_.size() && tokens_[i].kind != Token::Kind::NewLine && !is_mark(i, ";")) {
      if (!is_mark(i, ","))
        value = unknown(name);
      else
        return;
    }
    const auto before = variables_.find(name);
    const bool is_outside = function_column_ >= 0 && before != variables_.end() && !inside_.contains(name);
    if (is_outside) outside_.try_emplace(name, before->second);
    if (is_inner && before != variables_.end() && !same(before->second, value)) value = unknown(name);
    if (function_column_ >= 0 && before == variables_.end()) inside_.insert(name);
    variables_[name] = std::move(value);
  }

  /// `rank: int = 8` and `rank: int = field(default=8)` of a dataclass.
  void read_field(const std::string& name, std::size_t i) {
    if (tokens_[i].kind != Token::Kind::Name || tokens_[i].text != "field" || !is_open(i + 1, '(')) {
      PythonValue value = expression(i, 0);
      if (value.kind != PythonValue::Kind::Unknown) keep_default(options_, name, std::move(value));
      return;
    }
    const std::size_t end = tokens_[i + 1].partner;
    for (i += 2; i < end; skip_to_comma(i, end))
      if (tokens_[i].text == "default" && is_mark(i + 1, "=")) {
        i += 2;
        keep_default(options_, name, expression(i, 0));
      }
  }

  static bool same(const PythonValue& a, const PythonValue& b) {
    return a.kind == b.kind && a.text == b.text && a.is_text == b.is_text && a.items.empty() && b.items.empty() &&
           a.keys.empty() && b.keys.empty();
  }

  void read_call(std::size_t i) {
    const int line = tokens_[i].line;
    bind_parameters(i);
    const std::string name = dotted(i);
    if (!is_open(i, '(')) return;
    const auto wanted = wanted_name(name);
    if (wanted == names_.end()) return;
    PythonCall call{.name = *wanted, .line = line, .positional = {}, .keywords = {}, .open = {}};
    const std::size_t end = tokens_[i].partner;
    for (++i; i < end;) read_argument(i, end, call);
    calls_.push_back(std::move(call));
  }

  void read_argument(std::size_t& i, std::size_t end, PythonCall& call) {
    if (is_mark(i, "**")) {
      const std::size_t begin = ++i;
      const PythonValue value = expression(i, 0);
      if (value.kind == PythonValue::Kind::Dict)
        call.keywords.insert(call.keywords.end(), value.keys.begin(), value.keys.end());
      else
        call.open.push_back("**" + (begin < end ? tokens_[begin].text : ""));
    } else if (tokens_[i].kind == Token::Kind::Name && is_mark(i + 1, "=")) {
      const std::string name = tokens_[i].text;
      i += 2;
      call.keywords.emplace_back(name, expression(i, 0));
    } else {
      call.positional.push_back(expression(i, 0));
    }
    skip_to_comma(i, end);
  }

  /// Moves behind the next comma of this bracket; what stands before it makes the last value unknown elsewhere.
  void skip_to_comma(std::size_t& i, std::size_t end) const {
    while (i < end && !is_mark(i, ",")) i = tokens_[i].kind == Token::Kind::Open ? tokens_[i].partner + 1 : i + 1;
    if (i < end) ++i;
  }

  PythonValue unknown(std::string written) const {
    PythonValue value;
    value.text = written.size() > 60 ? written.substr(0, 57) + "..." : std::move(written);
    return value;
  }

  /// An expression from i on; i is behind it. What is not understood is skipped up to the next comma or line end.
  PythonValue expression(std::size_t& i, int depth) {
    const std::size_t begin = i;
    if (++num_values_ > kMostPythonValues) throw InputError(name_, "has too many values", "give the settings as flags");
    PythonValue value = operand(i, depth);
    while (i < tokens_.size() && tokens_[i].kind == Token::Kind::Mark &&
           (is_mark(i, "+") || is_mark(i, "-") || is_mark(i, "*") || is_mark(i, "/") || is_mark(i, "//") ||
            is_mark(i, "**"))) {
      const std::string sign = tokens_[i++].text;
      const PythonValue right = operand(i, depth);
      const auto both = combined(sign, value, right);
      value = both ? *both : unknown(value.kind == PythonValue::Kind::Unknown ? value.text : right.text);
    }
    if (i < tokens_.size() && tokens_[i].kind == Token::Kind::Name && tokens_[i].text == "if" &&
        depth < kMostPythonDepth)
      value = conditional(std::move(value), i, depth);
    if (is_end(i)) return value;
    std::string written = tokens_[begin].text;  // a condition, an index, a comparison
    while (!is_end(i)) {
      if (written.size() < 60 && i > begin) written += " " + tokens_[i].text;
      i = tokens_[i].kind == Token::Kind::Open ? tokens_[i].partner + 1 : i + 1;
    }
    return unknown(written);
  }

  /// `value if condition else other`, where the condition is known; None and an empty text are false.
  PythonValue conditional(PythonValue value, std::size_t& i, int depth) {
    std::size_t at = i + 1;
    const PythonValue condition = operand(at, depth + 1);
    const bool is_false =
        condition.text == "false" || condition.is_unset || (condition.is_text && condition.text.empty());
    const bool is_known = is_false || condition.text == "true" || condition.is_text;
    if (!is_known || at >= tokens_.size() || tokens_[at].text != "else") return value;
    i = at + 1;
    PythonValue other = expression(i, depth + 1);
    return is_false ? std::move(other) : std::move(value);
  }

  bool is_end(std::size_t i) const {
    return i >= tokens_.size() || tokens_[i].kind == Token::Kind::NewLine || tokens_[i].kind == Token::Kind::Close ||
           is_mark(i, ",") || is_mark(i, ":") || is_mark(i, ";");
  }

  PythonValue operand(std::size_t& i, int depth) {
    if (is_end(i) || depth > kMostPythonDepth) return unknown("");
    const Token& token = tokens_[i];
    if (token.kind == Token::Kind::Number) return ++i, literal_of(token.text);
    if (token.kind == Token::Kind::Text) return text(i);
    if (token.kind == Token::Kind::Name) return named(i, depth);
    if (token.kind == Token::Kind::Open) return bracket(i, depth);
    if (is_mark(i, "-") || is_mark(i, "+")) {
      const bool is_minus = token.text == "-";
      const PythonValue inner = operand(++i, depth + 1);
      if (!number_of(inner)) return unknown(inner.text);
      return is_minus ? literal_of("-" + inner.text) : inner;
    }
    ++i;
    return unknown(token.text);
  }

  /// f"...": names in braces that stand for literals.
  std::optional<std::string> formatted(const std::string& text) const {
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

  PythonValue text(std::size_t& i) const {
    std::string joined;
    bool is_known = true;
    for (; i < tokens_.size() && tokens_[i].kind == Token::Kind::Text; ++i) {
      const Token& token = tokens_[i];
      const auto filled = token.is_format ? formatted(token.text) : token.text;
      is_known = is_known && filled;
      if (joined.size() < 4096) joined += filled.value_or(token.text);
    }
    return is_known ? literal_of(joined, true) : unknown(joined);
  }

  PythonValue named(std::size_t& i, int depth) {
    if (tokens_[i].text == "not") {
      const PythonValue inner = operand(++i, depth + 1);
      if (inner.text == "true" || inner.text == "false") {
        PythonValue value = literal_of(inner.text == "true" ? "false" : "true");
        value.asks_card = inner.asks_card;
        return value;
      }
      return unknown("not " + inner.text);
    }
    const std::string name = dotted(i);
    const std::string last = name.substr(name.rfind('.') + 1);
    if (name == "True" || name == "False" || name == "None")
      return literal_of(name == "True" ? "true" : name == "False" ? "false" : "null");
    if (is_open(i, '(')) {
      const bool is_assumed = std::find(assumed_.begin(), assumed_.end(), last) != assumed_.end();
      if (!is_assumed) return called(name, i, depth);
      i = tokens_[i].partner + 1;
      PythonValue value = literal_of("true");
      value.asks_card = true;
      return value;
    }
    if (const auto variable = variables_.find(name); variable != variables_.end()) return item(variable->second, i);
    const PythonValue* of_arguments = default_of(name);
    const bool is_unset = of_arguments && of_arguments->text == "null";
    if (of_arguments && !is_unset) return item(*of_arguments, i);
    PythonValue value = unknown(name);  // torch.bfloat16, TaskType.CAUSAL_LM: a name, or a value of the run: args.lr
    value.is_unset = is_unset;
    if (name.find('.') != std::string::npos) value.kind = PythonValue::Kind::Name;
    return value;
  }

  /// `config["model"]["name"]`
  PythonValue item(PythonValue value, std::size_t& i) const {
    while (is_open(i, '[') && value.kind == PythonValue::Kind::Dict) {
      const std::string& key = tokens_[i + 1].text;
      const bool is_text = tokens_[i + 1].kind == Token::Kind::Text && tokens_[i].partner == i + 2;
      const auto found =
          std::find_if(value.keys.begin(), value.keys.end(), [&](const auto& k) { return k.first == key; });
      if (!is_text || found == value.keys.end()) break;
      PythonValue inner = found->second;
      value = std::move(inner);
      i += 3;
    }
    return value;
  }

  /// int(x), dict(rank=8), os.environ.get("RANK", 8), config.get("rank", 8); what other functions give is not known.
  PythonValue called(const std::string& name, std::size_t& i, int depth) {
    const std::size_t end = tokens_[i].partner;
    std::size_t at = i + 1;
    i = end + 1;
    const std::string last = name.substr(name.rfind('.') + 1);
    const bool is_number = name == "int" || name == "float", is_dict = name == "dict" || last == "DictDefault";
    const bool is_variable = last == "getenv" || name.ends_with("environ.get") || name.ends_with("environ.setdefault");
    const auto variable = last == "get" ? variables_.find(name.substr(0, name.rfind('.'))) : variables_.end();
    const bool is_item = variable != variables_.end() && variable->second.kind == PythonValue::Kind::Dict;
    if (!(is_number || is_dict || is_variable || is_item || name == "str") || depth > kMostPythonDepth / 4)
      return unknown(name + "(...)");
    PythonCall call{.name = name, .line = tokens_[end].line, .positional = {}, .keywords = {}, .open = {}};
    while (at < end) read_argument(at, end, call);
    if (is_dict) return dict_of(call);
    if (call.positional.empty()) return unknown(name + "(...)");
    PythonValue value = call.positional.back();
    const std::string key = call.positional.front().text;
    if (is_item)
      for (const auto& [own, inner] : variable->second.keys)
        if (own == key) return inner;
    const bool is_default = (is_variable || is_item) && call.positional.size() == 2;
    if (value.kind != PythonValue::Kind::Literal || (!is_default && call.positional.size() != 1))
      return unknown(name + "(...)");
    if (is_variable || is_item) {
      if (!is_default) return unknown(name + "(...)");
      if (is_variable) value.argument = "variable " + key + " of the environment";
    } else if (is_number) {
      value.is_text = false;
      if (!number_of(value)) return unknown(name + "(...)");
    } else {
      value.is_text = true;
    }
    return value;
  }

  static PythonValue dict_of(const PythonCall& call) {
    PythonValue dict;
    dict.kind = PythonValue::Kind::Dict;
    if (!call.positional.empty() && call.positional.front().kind == PythonValue::Kind::Dict)
      dict.keys = call.positional.front().keys;
    dict.keys.insert(dict.keys.end(), call.keywords.begin(), call.keywords.end());
    return dict;
  }

  PythonValue bracket(std::size_t& i, int depth) {
    const std::size_t end = tokens_[i].partner;
    const char kind = tokens_[i].text[0];
    PythonValue list;
    list.kind = kind == '{' ? PythonValue::Kind::Dict : PythonValue::Kind::List;
    bool has_comma = kind == '[', is_known = true;
    for (++i; i < end;) {
      PythonValue item = expression(i, depth + 1);
      if (kind == '{' && is_mark(i, ":")) {
        PythonValue value = expression(++i, depth + 1);
        if (item.is_text && list.keys.size() < kMostPythonItems) list.keys.emplace_back(item.text, std::move(value));
      } else if (list.items.size() < kMostPythonItems) {
        if (kind == '{') list.kind = PythonValue::Kind::List;  // a set
        list.items.push_back(std::move(item));
      }
      if (i < end && !is_mark(i, ",")) is_known = false;
      has_comma = has_comma || is_mark(i, ",");
      skip_to_comma(i, end);
    }
    i = end + 1;
    if (!is_known) return unknown(kind == '[' ? "[...]" : "{...}");
    if (kind == '(' && !has_comma && list.items.size() == 1) return list.items.front();
    return list;
  }

  const std::string& name_;
  const std::vector<std::string>& names_;
  const std::vector<std::string>& assumed_;
  const std::map<std::string, PythonValue>& given_;
  std::vector<Token> tokens_;
  std::map<std::string, PythonValue> variables_;
  std::map<std::string, PythonValue> options_, parameters_;    // defaults of arguments, and of functions' parameters
  std::map<std::string, std::vector<std::string>> functions_;  // of the text, with the names of their parameters
  std::map<std::string, PythonValue> passed_;                  // what calls of these give to their parameters
  std::vector<PythonCall> calls_;
  std::size_t num_values_ = 0;
  std::map<int, bool> conditions_;              // by the column of the last `if` whose condition is known
  int skipped_column_ = -1;                     // of the branch that is not taken; -1: none
  int function_column_ = -1;                    // of the function whose body is read; -1: none
  std::map<std::string, PythonValue> outside_;  // what its names stand for outside
  std::set<std::string> inside_;                // names that functions were the first to assign
  int class_column_ = -1, body_column_ = -1;    // of the class whose body is read; -1: none
};

}  // namespace

std::vector<PythonCall> read_python_calls(const std::string& text, const std::string& name,
                                          const std::vector<std::string>& names,
                                          const std::vector<std::string>& assumed,
                                          const std::map<std::string, PythonValue>& given) {
  return PythonReader(text, name, names, assumed, given).read();
}

}  // namespace gpuplan
