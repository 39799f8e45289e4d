#include "mend/python_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "mend/script_text.h"

namespace gpuplan {
namespace {

using Kind = PythonToken::Kind;

/// The keyword by which a call states a key.
std::string keyword_of(const KeywordCall& call, const std::string& key) {
  for (const auto& [keyword, stated] : call.keywords)
    if (stated == key) return keyword;
  return call.takes_all ? key : "";
}

}  // namespace

std::string python_word(const OrderedJson& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  return value.dump();
}

PythonText::PythonText(ConfigFile file, const std::string& table)
    : file_(std::move(file)),
      rows_(keyword_calls(table)),
      tokens_(file_.text, file_.name) {
  for (std::size_t i = 0; i + 1 < tokens_.size(); ++i) {
    if (tokens_[i].kind != Kind::Name || !tokens_.is_open(i + 1, '(')) continue;
    std::string name = tokens_[i].text;
    std::size_t first = i;
    while (first > 1 && tokens_.is_mark(first - 1, ".") && tokens_[first - 2].kind == Kind::Name)
      first -= 2, name = tokens_[first].text + "." + name;
    if (first > 0 && (tokens_.is_name(first - 1, "def") || tokens_.is_name(first - 1, "class"))) continue;
    for (const KeywordCall& row : rows_)
      if (name == row.name || name.ends_with("." + row.name)) calls_.push_back({&row, i + 1});
  }
}

/// The arguments, in any of the calls, that state a key.
std::vector<PythonText::Argument> PythonText::arguments_of(const std::string& key) const {
  std::vector<Argument> out;
  for (std::size_t c = 0; c < calls_.size(); ++c) {
    const std::string keyword = keyword_of(*calls_[c].row, key);
    const std::size_t end = tokens_[calls_[c].open].partner;
    for (std::size_t i = calls_[c].open + 1; i < end;) {
      const std::size_t name = i;
      while (i < end && !tokens_.is_mark(i, ",")) i = tokens_[i].kind == Kind::Open ? tokens_[i].partner + 1 : i + 1;
      if (!keyword.empty() && tokens_.is_name(name, keyword) && tokens_.is_mark(name + 1, "="))
        out.push_back({c, name, i});
      ++i;
    }
  }
  return out;
}

bool PythonText::is_literal(const Argument& argument) const {
  std::size_t first = argument.name + 2;
  if (tokens_.is_mark(first, "-")) ++first;
  if (first + 1 != argument.value_end) return false;
  const PythonToken& token = tokens_[first];
  if (token.kind == Kind::Name) return token.text == "True" || token.text == "False" || token.text == "None";
  return token.kind == Kind::Number || (token.kind == Kind::Text && !token.is_format);
}

std::optional<PythonText::Argument> PythonText::only_argument(const std::string& key) const {
  const std::vector<Argument> all = arguments_of(key);
  if (all.size() != 1 || !is_literal(all.front())) return std::nullopt;
  return all.front();
}

/// The one call that makes the trainer's settings; nullptr: none, or several.
const PythonText::Call* PythonText::settings_call() const {
  const Call* found = nullptr;
  for (const Call& call : calls_) {
    if (!call.row->takes_all) continue;
    if (found) return nullptr;
    found = &call;
  }
  return found;
}

/// Says whether a call has arguments whose names only a run shows.
bool PythonText::has_unknown(const Call& call) const {
  for (std::size_t i = call.open + 1; i < tokens_[call.open].partner;
       i = tokens_[i].kind == Kind::Open ? tokens_[i].partner + 1 : i + 1)
    if (tokens_.is_mark(i, "**")) return true;
  return false;
}

bool PythonText::edit(const std::string& key, TextEdit edit) {
  edits_.drop(key);
  for (const TextEdit& other : edits_.list())
    if (edit.begin < other.end && other.begin < edit.end) return false;
  edits_.add(key, std::move(edit));
  return true;
}

bool PythonText::put(const SettingsPart& part, const std::string& key, const OrderedJson& value) {
  if (value.is_structured()) return false;
  if (const auto argument = only_argument(key)) {
    const std::size_t begin = tokens_[argument->name + 2].begin;
    std::string word = python_word(value);
    if (value.is_string() && file_.text[begin] == '\'') word = "'" + value.get<std::string>() + "'";
    return edit(key, {begin, tokens_[argument->value_end - 1].end, word});
  }
  // stated by a position, an assignment or a value that is computed
  if (!arguments_of(key).empty() || flag_for(part, key)) return false;
  return is_of_settings(key) && add(key, value);
}

bool PythonText::add(const std::string& key, const OrderedJson& value) {
  const Call* const call = settings_call();
  if (!call || has_unknown(*call) || key.find('.') != std::string::npos) return false;
  const std::string entry = keyword_of(*call->row, key) + "=" + python_word(value);
  const std::string& text = file_.text;
  const std::size_t close = tokens_[call->open].partner, last = close - 1;
  if (last == call->open) return edit(key, {tokens_[close].begin, tokens_[close].begin, entry});
  const bool has_comma = tokens_.is_mark(last, ",");
  if (tokens_[close].line == tokens_[last].line) {
    const std::string lead = has_comma ? " " : ", ";
    return edit(key, {tokens_[last].end, tokens_[last].end, lead + entry + (has_comma ? "," : "")});
  }
  // a line of its own, below the comment of the last argument
  std::size_t line_end = text.find('\n', tokens_[last].end);
  const bool has_return = line_end > 0 && text[line_end - 1] == '\r';
  if (has_return) --line_end;
  std::size_t first = last;  // of the arguments' last line that begins with a name
  while (first > call->open + 1 && tokens_[first - 1].line == tokens_[first].line) --first;
  const std::size_t line_begin = text.rfind('\n', tokens_[first].begin) + 1;
  const std::size_t after = text.find_first_not_of(" \t", line_begin);
  std::string indent = text.substr(line_begin, after - line_begin);
  if (tokens_[call->open + 1].line != tokens_[call->open].line) {  // as the first argument stands
    const std::size_t begin = text.rfind('\n', tokens_[call->open + 1].begin) + 1;
    indent = text.substr(begin, tokens_[call->open + 1].begin - begin);
  }
  if (!has_comma && !edit(",", {tokens_[last].end, tokens_[last].end, ","})) return false;
  return edit(key, {line_end, line_end, (has_return ? "\r\n" : "\n") + indent + entry + ","});
}

bool PythonText::clear(const SettingsPart& part, const std::string& key) {
  const auto argument = only_argument(key);
  if (!argument) return arguments_of(key).empty() && !flag_for(part, key);
  const std::string& text = file_.text;
  std::size_t begin = tokens_[argument->name].begin, end = tokens_[argument->value_end - 1].end;
  if (tokens_.is_mark(argument->value_end, ",")) {
    end = tokens_[argument->value_end].end;
    const std::size_t line = text.rfind('\n', begin) + 1, rest = text.find_first_not_of(" \t\r", end);
    const bool is_alone = text.find_first_not_of(" \t", line) == begin && rest != std::string::npos &&
                          (text[rest] == '\n' || text[rest] == '#');
    if (is_alone)
      begin = line, end = text.find('\n', end) + 1;
    else if (text[end] == ' ')
      ++end;
  } else if (tokens_.is_mark(argument->name - 1, ",")) {
    begin = tokens_[argument->name - 1].begin;
  }
  return edit(key, {begin, end, ""});
}

/// The call in which the keyword for a key stands or would stand; nullptr: none is known.
const PythonText::Call* PythonText::call_for(const std::string& key) const {
  const std::vector<Argument> all = arguments_of(key);
  if (!all.empty()) return &calls_[all.front().call];
  if (!is_of_settings(key)) return nullptr;
  const auto found = std::ranges::find_if(calls_, [](const Call& call) { return call.row->takes_all; });
  return found == calls_.end() ? nullptr : &*found;
}

std::string PythonText::keyword_for(const std::string& key) const {
  const Call* const call = call_for(key);
  return call ? keyword_of(*call->row, key) : key;
}

std::string PythonText::to_type(const std::string& key, const OrderedJson& value) const {
  const Call* const call = call_for(key);
  return fmt::format("{}={}{}", keyword_for(key), python_word(value), call ? " in " + call->row->name : "");
}

}  // namespace gpuplan
