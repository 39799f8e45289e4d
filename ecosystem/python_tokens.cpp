#include "ecosystem/python_tokens.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/names.h"
#include "base/narrow.h"

namespace gpuplan {
namespace {

using Token = PythonToken;

class Tokenizer {
 public:
  Tokenizer(const std::string& text, const std::string& name) : text_(text), name_(name) {}

  std::vector<Token> read() {
    while (at_ < text_.size()) {
      const std::size_t begin = at_, num_tokens = tokens_.size();
      read_one();
      if (tokens_.size() > num_tokens) tokens_.back().begin = begin, tokens_.back().end = at_;
    }
    if (!open_.empty())
      throw InputError(fmt::format("{}:{}", name_, tokens_[open_.back()].line),
                       fmt::format("the bracket {} is not closed", tokens_[open_.back()].text));
    add(Token::Kind::NewLine, "");
    return std::move(tokens_);
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void add(Token::Kind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), line_, narrow<int>(at_ - line_begin_), 0, false, 0, 0});
  }

  void next_line() {
    ++line_;
    line_begin_ = at_;
  }

  void read_one() {
    const char c = peek();
    if (c == '\n') {
      if (open_.empty()) add(Token::Kind::NewLine, "");
      ++at_;
      return next_line();
    }
    if (c == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
      at_ += peek(1) == '\n' ? 2 : 3;
      return next_line();
    }
    if (c == '#') {
      while (at_ < text_.size() && peek() != '\n') ++at_;
    } else if (c == '"' || c == '\'') {
      read_text(false, false);
    } else if (is_name_begin(c)) {
      read_name();
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0 ||
               (c == '.' && std::isdigit(static_cast<unsigned char>(peek(1))) != 0)) {
      read_number();
    } else if (std::string_view("([{").find(c) != std::string_view::npos) {
      add(Token::Kind::Open, {c});
      open_.push_back(tokens_.size() - 1);
      ++at_;
    } else if (std::string_view(")]}").find(c) != std::string_view::npos) {
      close(c);
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      ++at_;
    } else {
      const bool is_double = (c == '*' && peek(1) == '*') || (c == '/' && peek(1) == '/') ||
                             (peek(1) == '=' && std::string_view("=!<>+-*/").find(c) != std::string_view::npos);
      add(Token::Kind::Mark, text_.substr(at_, is_double ? 2 : 1));
      at_ += is_double ? 2 : 1;
    }
  }

  void close(char c) {
    const std::string_view pairs = "()[]{}";
    if (open_.empty() || pairs[pairs.find(tokens_[open_.back()].text[0]) + 1] != c)
      throw InputError(fmt::format("{}:{}", name_, line_), fmt::format("the bracket {} closes none", c));
    add(Token::Kind::Close, {c});
    tokens_.back().partner = open_.back();
    tokens_[open_.back()].partner = tokens_.size() - 1;
    open_.pop_back();
    ++at_;
  }

  void read_name() {
    std::size_t end = at_;
    while (end < text_.size() && is_name_part(text_[end])) ++end;
    const std::string word = text_.substr(at_, end - at_);
    const char quote = end < text_.size() ? text_[end] : '\0';
    const std::string prefix = to_lower(word);
    if ((quote == '"' || quote == '\'') && prefix.size() <= 2 &&
        prefix.find_first_not_of("rbfu") == std::string::npos) {
      at_ = end;
      return read_text(prefix.find('f') != std::string::npos, prefix.find('r') != std::string::npos);
    }
    add(Token::Kind::Name, word);
    at_ = end;
  }

  void read_number() {
    std::size_t end = at_;
    while (end < text_.size() && (is_name_part(text_[end]) || text_[end] == '.' ||
                                  ((text_[end] == '-' || text_[end] == '+') && (text_[end - 1] | 0x20) == 'e')))
      ++end;
    std::string digits = text_.substr(at_, end - at_);
    digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
    add(Token::Kind::Number, digits);
    at_ = end;
  }

  void read_text(bool is_format, bool is_raw) {
    const int begin = line_;
    const char quote = peek();
    const bool is_triple = peek(1) == quote && peek(2) == quote;
    const std::string end(is_triple ? 3 : 1, quote);
    add(Token::Kind::Text, "");
    const std::size_t own = tokens_.size() - 1;
    tokens_[own].is_format = is_format;
    at_ += end.size();
    std::string inside;
    while (text_.compare(at_, end.size(), end) != 0) {
      if (at_ >= text_.size() || (!is_triple && peek() == '\n'))
        throw InputError(fmt::format("{}:{}", name_, begin), fmt::format("the quote {} is not closed", end));
      if (peek() == '\\' && at_ + 1 < text_.size()) {
        if (is_raw) inside += '\\';
        if (peek(1) != '\n') inside += peek(1);
        ++at_;
      } else {
        inside += peek();
      }
      const bool is_line = peek() == '\n';
      ++at_;
      if (is_line) next_line();
    }
    at_ += end.size();
    tokens_[own].text = std::move(inside);
  }

  const std::string& text_;
  const std::string& name_;
  std::size_t at_ = 0, line_begin_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
  std::vector<std::size_t> open_;
};

}  // namespace

PythonTokens::PythonTokens(const std::string& text, const std::string& name) : tokens_(Tokenizer(text, name).read()) {}

bool PythonTokens::is_mark(std::size_t i, std::string_view text) const {
  return i < tokens_.size() && tokens_[i].kind == Token::Kind::Mark && tokens_[i].text == text;
}

bool PythonTokens::is_open(std::size_t i, char bracket) const {
  return i < tokens_.size() && tokens_[i].kind == Token::Kind::Open && tokens_[i].text[0] == bracket;
}

bool PythonTokens::is_name(std::size_t i, std::string_view text) const {
  return i < tokens_.size() && tokens_[i].kind == Token::Kind::Name && tokens_[i].text == text;
}

std::string PythonTokens::dotted(std::size_t& i) const {
  std::string name = tokens_[i++].text;
  while (is_mark(i, ".") && i + 1 < tokens_.size() && tokens_[i + 1].kind == Token::Kind::Name) {
    name += "." + tokens_[i + 1].text;
    i += 2;
  }
  return name;
}

void PythonTokens::skip_to_comma(std::size_t& i, std::size_t end) const {
  while (i < end && !is_mark(i, ",")) i = tokens_[i].kind == Token::Kind::Open ? tokens_[i].partner + 1 : i + 1;
  if (i < end) ++i;
}

std::set<std::string> PythonTokens::functions_that_call(const std::vector<std::string>& names) const {
  std::set<std::string> functions;
  for (std::size_t i = 0; i + 2 < tokens_.size(); ++i) {
    if (!is_name(i, "def")) continue;
    bool calls = false, returns = false, begins = false;
    for (std::size_t at = i + 2; at < tokens_.size(); ++at) {
      if (begins && tokens_[at].kind != Token::Kind::NewLine && tokens_[at].column <= tokens_[i].column) break;
      begins = tokens_[at].kind == Token::Kind::NewLine;
      if (tokens_[at].kind != Token::Kind::Name || is_mark(at - 1, ".")) continue;
      returns = returns || is_name(at, "return");
      std::size_t behind = at;
      calls = calls || std::ranges::count(names, dotted(behind)) > 0;
    }
    if (calls && returns) functions.insert(tokens_[i + 1].text);
  }
  return functions;
}

}  // namespace gpuplan
