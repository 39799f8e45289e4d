#include "cli/render/estimate_text.h"

#include <fmt/format.h>

#include "cli/render/facts.h"
#include "cli/render/text.h"

namespace gpuplan {
namespace {

std::string verdict_text(const EstimateAnswer& answer, const Screen& screen) {
  const Recommendation& verdict = *answer.result.recommended;
  const bool fits = answer.fits();
  const std::string title = fits ? "Recommended: " + verdict.strategy : "Nothing fits";
  std::string out = "\n" + paint(title, Ink::Strong, screen) + "\n" + wrap(verdict.reason, screen.width, "  ", "  ");
  if (!verdict.advice.empty()) out += heading(fits ? "Worth knowing" : "What would help", screen) + points(verdict.advice, screen);
  return out;
}

}  // namespace

std::string estimate_text(const EstimateAnswer& answer, const Screen& screen) {
  std::string out = question_text(answer, screen) + "\n" + strategies_text(answer, screen);
  if (answer.result.recommended) out += verdict_text(answer, screen);
  if (answer.shown) out += closest_look_text(answer, screen);
  if (!answer.explanation.empty()) out += explanation_text(answer.explanation, screen);
  if (!answer.result.assumptions.empty()) out += heading("Assumptions", screen) + points(answer.result.assumptions, screen);
  return out;
}

std::string explanation_text(const std::vector<ExplainSection>& sections, const Screen& screen) {
  std::string out;
  for (const ExplainSection& section : sections) {
    out += heading(section.title, screen);
    int terms = 0, values = 0;
    for (const ExplainLine& line : section.lines) {
      terms = std::max(terms, std::min(width_of(line.term), screen.width / 3));
      values = std::max(values, std::min(width_of(line.value), screen.width / 4));
    }
    const int before = 2 + terms + 2 + values + 2;
    for (const ExplainLine& line : section.lines) {
      const bool is_short = width_of(line.term) <= terms && width_of(line.value) <= values;
      const std::string hanging(std::size_t(before), ' ');
      const std::string left = "  " + pad_right(line.term, terms) + "  " + pad_right(line.value, values) + "  ";
      std::string text = is_short ? wrap(line.source, screen.width, left, hanging)
                                  : wrap(line.term + "  " + line.value, screen.width, "  ", "    ") + (line.source.empty() ? "" : wrap(line.source, screen.width, hanging, hanging));
      out += text;
    }
  }
  return out;
}

}  // namespace gpuplan
