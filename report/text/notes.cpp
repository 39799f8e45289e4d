#include "report/text/notes.h"

#include <algorithm>

#include "base/files.h"
#include "report/text/screen.h"
#include "report/text/text.h"

namespace gpuplan {

std::string in_width(std::string_view text, int width) {
  std::string out;
  const bool has_end = text.ends_with('\n');
  if (has_end) text.remove_suffix(1);
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line(text.substr(at, end - at));
    at = end + 1;
    const std::string indent(std::min(line.find_first_not_of(' '), line.size()), ' ');
    if (width_of(line) <= width)
      out += line + "\n";
    else
      out += wrap(std::string_view(line).substr(indent.size()), width, indent, out.empty() ? indent + "  " : indent);
  }
  if (!has_end && out.ends_with('\n')) out.pop_back();
  return out;
}

std::string for_standard_error(std::string text) {
  return is_terminal(StandardStream::Err) ? in_width(text, screen_of(StandardStream::Err).width) : text;
}

}  // namespace gpuplan
