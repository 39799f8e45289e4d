#include "cluster/xml_tree.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "base/error.h"

namespace gpuplan {
namespace {

constexpr std::size_t kDeepest = 32, kMostElements = 100'000;  // NCCL's own trees have 7 levels

class XmlReader {
 public:
  XmlReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  XmlElement read() {
    std::vector<XmlElement> open(1);  // a parent for the top
    for (std::size_t count = 0; skip_to_tag(); ++count) {
      if (count > kMostElements) fail("has too many elements");
      if (next_is("/")) {
        const std::string name = read_name();
        if (open.size() < 2 || open.back().name != name)
          fail(fmt::format(
              "</{}> ends {}", name,
              open.size() < 2 ? "nothing" : fmt::format("<{}> of line {}", open.back().name, open.back().line)));
        expect('>');
        close(open);
      } else {
        if (open.size() > kDeepest) fail("is nested too deep");
        if (open.size() == 1 && !open.front().children.empty()) fail("has more than one element at the top");
        open.push_back(read_start());
        if (is_closed_) close(open);
      }
    }
    if (open.size() > 1)
      fail(fmt::format("<{}> of line {} is not ended: the file is cut off", open.back().name, open.back().line));
    if (open.front().children.empty()) fail("has no element");
    return std::move(open.front().children.front());
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw InputError(fmt::format("{}:{}", file_, line_), problem, "expected is what NCCL_TOPO_DUMP_FILE writes");
  }

  static void close(std::vector<XmlElement>& open) {
    XmlElement done = std::move(open.back());
    open.pop_back();
    open.back().children.push_back(std::move(done));
  }

  bool at_end() const { return at_ >= text_.size(); }
  void advance() {
    if (text_[at_++] == '\n') ++line_;
  }
  void skip_space() {
    while (!at_end() && std::isspace(static_cast<unsigned char>(text_[at_]))) advance();
  }
  bool next_is(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  void expect(char c) {
    skip_space();
    if (at_end() || text_[at_] != c) fail(at_end() ? "the file is cut off" : fmt::format("'{}' is expected", c));
    advance();
  }
  void skip_past(std::string_view end) {
    while (!at_end() && !text_.substr(at_).starts_with(end)) advance();
    if (at_end()) fail("the file is cut off");
    at_ += end.size();
  }

  /// Behind the next '<' that begins or ends an element; false at the end.
  bool skip_to_tag() {
    for (;;) {
      skip_space();
      if (at_end()) return false;
      if (next_is("<?")) {
        skip_past("?>");
      } else if (next_is("<!--")) {
        skip_past("-->");
      } else if (next_is("<!")) {
        skip_past(">");
      } else if (next_is("<")) {
        return true;
      } else if (text_.substr(at_).starts_with("\xef\xbb\xbf")) {
        at_ += 3;
      } else {
        fail("has text outside of elements");
      }
    }
  }

  std::string read_name() {
    const std::size_t begin = at_;
    while (!at_end() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' || text_[at_] == '-'))
      ++at_;
    if (begin == at_) fail(at_end() ? "the file is cut off" : "a name is expected");
    return std::string(text_.substr(begin, at_ - begin));
  }

  XmlElement read_start() {
    XmlElement element{.name = read_name(), .line = line_};
    for (;;) {
      skip_space();
      is_closed_ = next_is("/");
      if (is_closed_ || (!at_end() && text_[at_] == '>')) break;
      std::string key = read_name();
      expect('=');
      expect('"');
      const std::size_t begin = at_;
      while (!at_end() && text_[at_] != '"') advance();
      if (at_end()) fail("the file is cut off");
      element.attributes.emplace_back(std::move(key), std::string(text_.substr(begin, at_ - begin)));
      advance();
    }
    expect('>');
    return element;
  }

  std::string_view text_;
  std::string file_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool is_closed_ = false;
};

}  // namespace

std::string XmlElement::attribute(std::string_view key) const {
  for (const auto& [known, value] : attributes)
    if (known == key) return value;
  return {};
}

XmlElement read_xml(std::string_view text, const std::string& file) { return XmlReader(text, file).read(); }

}  // namespace gpuplan
