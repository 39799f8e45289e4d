#include "report/text/facts.h"

#include <algorithm>

#include "report/text/text.h"

namespace gpuplan {

int prose_width(const Screen& screen) { return std::min(screen.width, kPipeWidth); }

std::string render(const std::vector<Fact>& facts, int indent, const Screen& screen) {
  int width = 0;
  for (const Fact& fact : facts) width = std::max(width, width_of(fact.label));
  const std::string margin(std::size_t(indent), ' '), hanging(std::size_t(indent + width + 2), ' ');
  std::string out;
  for (const Fact& fact : facts) {
    if (fact.text.empty()) continue;
    const std::string text = wrap(fact.text, prose_width(screen), hanging, hanging);
    out += margin + paint(fact.label, Ink::Faint, screen) + text.substr(std::size_t(indent + width_of(fact.label)));
  }
  return out;
}

std::string heading(std::string_view title, const Screen& screen) {
  return "\n" + paint(title, Ink::Strong, screen) + "\n";
}

std::string points(const std::vector<std::string>& texts, const Screen& screen) {
  std::string out;
  for (const std::string& text : texts) out += wrap(text, prose_width(screen), "  - ", "    ");
  return out;
}

}  // namespace gpuplan
