#include "ecosystem/shell_cursor.h"

#include <fmt/format.h>

#include "base/error.h"

namespace gpuplan {

char ShellCursor::take() {
  const char c = text_[at_++];
  if (c == '\n') ++line_;
  return c;
}

void ShellCursor::skip(std::size_t count) {
  for (; count > 0 && !is_end(); --count) take();
}

void ShellCursor::fail(int line, const std::string& problem, const std::string& hint) const {
  throw InputError(fmt::format("{}:{}", name_, line), problem, hint);
}

std::string ShellCursor::until_closed(char open, char close) {
  const int begin = line_;
  std::string inside;
  for (int depth = 1; !is_end();) {
    const char c = take();
    if (c == '\\' && !is_end()) {
      inside += c;
      inside += take();
      continue;
    }
    if (c == '\'' || (c == '"' && open != '"')) {
      inside += c;
      while (!is_end() && peek() != c) {
        if (c == '"' && peek() == '\\') inside += take();
        if (!is_end()) inside += take();
      }
      if (!is_end()) inside += take();
      continue;
    }
    if (c == open) ++depth;
    if (c == close && --depth == 0) return inside;
    inside += c;
  }
  fail(begin, fmt::format("'{}' is not closed", open));
}

}  // namespace gpuplan
