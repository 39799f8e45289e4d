#include "base/toml_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace gpuplan {
namespace {

using nlohmann::json;

/// Reads one text from its beginning to its end.
class TomlReader {
 public:
  TomlReader(std::string_view text, std::string file) : text_(text), tree_(std::make_shared<ValueTree>()) {
    tree_->file = std::move(file);
    tree_->format = FileFormat::Yaml;  // whose places are kept
    tree_->root = json::object();
  }

  std::shared_ptr<ValueTree> read() {
    json* table = &tree_->root;
    std::string above;
    while (skip_lines()) {
      if (peek() == '[')
        std::tie(table, above) = read_header();
      else
        read_pair(*table, above);
      end_line();
    }
    return tree_;
  }

 private:
  using Keys = std::vector<std::string>;
  static constexpr int kMostDepth = 64;

  [[noreturn]] void fail(const std::string& problem) const {
    throw InputError(fmt::format("{}:{}", tree_->file, line_), problem, "TOML 1.0 is read");
  }

  bool is_end() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool takes(std::string_view what) {
    if (text_.substr(at_).starts_with(what)) return at_ += what.size(), true;
    return false;
  }
  void skip_spaces() {
    while (peek() == ' ' || peek() == '\t') ++at_;
  }
  void skip_comment() {
    if (peek() == '#')
      while (!is_end() && peek() != '\n') ++at_;
  }
  /// Passes empty lines and comments; false at the end of the text.
  bool skip_lines() {
    for (;; ++at_) {
      skip_spaces();
      skip_comment();
      if (is_end()) return false;
      if (peek() == '\n')
        ++line_;
      else if (peek() != '\r')
        return true;
    }
  }
  void end_line() {
    skip_spaces();
    skip_comment();
    takes("\r");
    if (!is_end() && peek() != '\n') fail(fmt::format("'{}' behind a value", peek()));
  }

  static bool is_bare(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
  }

  std::string read_key() {
    skip_spaces();
    if (peek() == '"' || peek() == '\'') return read_text();
    const std::size_t begin = at_;
    while (is_bare(peek())) ++at_;
    if (at_ == begin) fail("a key is expected");
    return std::string(text_.substr(begin, at_ - begin));
  }
  Keys read_keys() {
    Keys keys{read_key()};
    for (skip_spaces(); takes("."); skip_spaces()) keys.push_back(read_key());
    if (keys.size() > std::size_t(kMostDepth)) fail("too many keys below each other");
    return keys;
  }

  /// The mapping below `from`, made where it is not there; of a list of tables the last one.
  json& below(json& from, const std::string& key) {
    json& found = from[key];
    if (found.is_null()) found = json::object();
    json& table = found.is_array() && !found.empty() ? found.back() : found;
    if (!table.is_object()) fail(fmt::format("{} is a value, and no table", key));
    return table;
  }

  std::pair<json*, std::string> read_header() {
    const bool is_list = text_.substr(at_).starts_with("[[");
    at_ += is_list ? 2 : 1;
    const Keys keys = read_keys();
    if (!takes(is_list ? "]]" : "]")) fail("']' is expected");
    json* table = &tree_->root;
    for (std::size_t i = 0; i + 1 < keys.size(); ++i) table = &below(*table, keys[i]);
    const std::string path = fmt::format("{}", fmt::join(keys, "."));
    place(path);
    if (!is_list) {
      if (!headers_.insert(path).second && lists_.empty()) fail(fmt::format("[{}] comes twice", path));
      return {&below(*table, keys.back()), path};
    }
    json& list = (*table)[keys.back()];
    if (list.is_null()) list = json::array();
    if (!list.is_array()) fail(fmt::format("{} is no list of tables", path));
    list.push_back(json::object());
    lists_.insert(path);
    return {&list.back(), path};
  }

  void read_pair(json& table, const std::string& above) {
    const Keys keys = read_keys();
    skip_spaces();
    if (!takes("=")) fail("'=' is expected behind a key");
    json* at = &table;
    for (std::size_t i = 0; i + 1 < keys.size(); ++i) at = &below(*at, keys[i]);
    const std::string path = fmt::format("{}{}{}", above, above.empty() ? "" : ".", fmt::join(keys, "."));
    if (at->contains(keys.back())) fail(fmt::format("{} comes twice", path));
    place(path);
    (*at)[keys.back()] = read_value(0);
  }
  void place(const std::string& path) {
    ValueTree::Place& place = tree_->places[path];
    place.line = place.key_line = line_;
    place.order = tree_->places.size();
  }

  json read_value(int depth) {
    if (depth > kMostDepth) fail("values too deep inside each other");
    skip_spaces();
    const char c = peek();
    if (c == '"' || c == '\'') return read_text();
    if (c == '[') return read_list(depth);
    if (c == '{') return read_inline(depth);
    return read_word();
  }

  json read_list(int depth) {
    json list = json::array();
    for (++at_;;) {
      if (!skip_lines()) fail("']' is missing");
      if (takes("]")) return list;
      list.push_back(read_value(depth + 1));
      if (!skip_lines()) fail("']' is missing");
      if (!takes(",") && peek() != ']') fail("',' or ']' is expected");
    }
  }

  json read_inline(int depth) {
    json table = json::object();
    for (++at_;;) {
      if (!skip_lines()) fail("'}' is missing");
      if (takes("}")) return table;
      const Keys keys = read_keys();
      skip_spaces();
      if (!takes("=")) fail("'=' is expected behind a key");
      json* at = &table;
      for (std::size_t i = 0; i + 1 < keys.size(); ++i) at = &below(*at, keys[i]);
      (*at)[keys.back()] = read_value(depth + 1);
      if (!skip_lines()) fail("'}' is missing");
      if (!takes(",") && peek() != '}') fail("',' or '}' is expected");
    }
  }

  json read_word() {
    const std::size_t begin = at_;
    while (!is_end() && std::string_view(" \t\r\n,]}#").find(peek()) == std::string_view::npos) ++at_;
    std::string word(text_.substr(begin, at_ - begin));
    if (word == "true" || word == "false") return word == "true";
    if (word.empty()) fail("a value is expected");
    std::string digits = word;
    std::erase(digits, '_');
    if (digits.starts_with("+")) digits.erase(0, 1);
    const char* const end = digits.data() + digits.size();
    std::int64_t whole = 0;
    if (const auto read = std::from_chars(digits.data(), end, whole); read.ec == std::errc{} && read.ptr == end)
      return whole;
    if (digits.starts_with("0x"))
      if (const auto read = std::from_chars(digits.data() + 2, end, whole, 16);
          read.ec == std::errc{} && read.ptr == end)
        return whole;
    double number = 0;
    if (const auto read = std::from_chars(digits.data(), end, number);
        read.ec == std::errc{} && read.ptr == end && std::isfinite(number))
      return number;
    if (digits.front() >= '0' && digits.front() <= '9') return word;  // a date or a time
    fail(fmt::format("'{}' is no value", word.substr(0, 40)));
  }

  /// A text in one or three quotes; in double ones a backslash changes what follows.
  std::string read_text() {
    const char quote = peek();
    const std::string three(3, quote);
    const bool is_long = takes(three);
    if (!is_long) ++at_;
    if (is_long && peek() == '\r') ++at_;
    if (is_long && peek() == '\n') ++line_, ++at_;
    std::string out;
    for (;;) {
      if (is_end() || (!is_long && peek() == '\n')) fail("a text does not end");
      if (is_long ? takes(three) : takes(std::string(1, quote))) return out;
      if (peek() == '\n') ++line_;
      if (quote == '"' && takes("\\"))
        read_escape(out);
      else
        out += text_[at_++];
    }
  }

  void read_escape(std::string& out) {
    constexpr std::string_view kLetters = "btnfr\"\\", kMeant = "\b\t\n\f\r\"\\";
    const char c = peek();
    if (const std::size_t i = kLetters.find(c); i != std::string_view::npos && c != '\0') {
      out += kMeant[i];
      ++at_;
    } else if (c == 'u' || c == 'U') {
      read_code(out, c == 'u' ? 4 : 8);
    } else if (c == '\n' || c == ' ' || c == '\r' || c == '\t') {
      for (; peek() == '\n' || peek() == ' ' || peek() == '\r' || peek() == '\t'; ++at_)
        if (peek() == '\n') ++line_;
    } else {
      fail(fmt::format("'\\{}' means nothing", c));
    }
  }

  void read_code(std::string& out, std::size_t digits) {
    const std::string_view hex = text_.substr(std::min(at_ + 1, text_.size()), digits);
    std::uint32_t code = 0;
    const auto read = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
    if (hex.size() != digits || read.ptr != hex.data() + hex.size() || code > 0x10ffff || (code >> 11) == 0x1b)
      fail("no Unicode character has this number");
    at_ += 1 + digits;
    const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((code >> shift) & 0x3f)); };
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xc0 | (code >> 6)), tail(0);
    } else if (code < 0x10000) {
      out += static_cast<char>(0xe0 | (code >> 12)), tail(6), tail(0);
    } else {
      out += static_cast<char>(0xf0 | (code >> 18)), tail(12), tail(6), tail(0);
    }
  }

  std::string_view text_;
  std::shared_ptr<ValueTree> tree_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::set<std::string> headers_, lists_;
};

}  // namespace

std::shared_ptr<ValueTree> parse_toml(std::string_view text, const std::string& file) {
  return TomlReader(text, file).read();
}

}  // namespace gpuplan
