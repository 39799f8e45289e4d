// The terms behind the figures: term and value on a line, below them where the value comes from.
#include <algorithm>

#include "report/text/estimate_text.h"
#include "report/text/facts.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

constexpr int kWidestTerm = 40;

std::string line_text(const ExplainLine& line, int term_width, const Screen& screen) {
  const std::string hanging(std::size_t(2 + term_width + 2), ' ');
  if (width_of(line.term) <= term_width)
    return wrap(line.value, prose_width(screen), "  " + pad_right(line.term, term_width) + "  ", hanging);
  return wrap(line.term, prose_width(screen), "  ", "    ") + wrap(line.value, prose_width(screen), hanging, hanging);
}

/// A source that holds for several lines stands once, below the last of them.
std::string section_text(const ExplainSection& section, const Screen& screen) {
  int term_width = 0;
  for (const ExplainLine& line : section.lines)
    term_width = std::max(term_width, std::min(kWidestTerm, width_of(line.term)));
  std::string out = heading(section.title, screen);
  for (std::size_t i = 0; i < section.lines.size(); ++i) {
    const ExplainLine& line = section.lines[i];
    out += line_text(line, term_width, screen);
    const bool is_shared = i + 1 < section.lines.size() && section.lines[i + 1].source == line.source;
    if (!line.source.empty() && !is_shared)
      out += paint(wrap(line.source, prose_width(screen), "      ", "      "), Ink::Faint, screen);
  }
  return out;
}

}  // namespace

std::string explanation_text(const std::vector<ExplainSection>& sections, const Screen& screen) {
  std::string out;
  for (const ExplainSection& section : sections) out += section_text(section, screen);
  return out;
}

}  // namespace gpuplan
