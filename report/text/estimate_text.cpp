#include "report/text/estimate_text.h"

#include <fmt/format.h>

#include "report/text/facts.h"
#include "report/text/text.h"

namespace gpuplan {
namespace {

std::string verdict_title(const EstimateAnswer& answer) {
  const std::string& asked = answer.request.strategy;
  if (asked == "auto") return answer.fits() ? "Recommended: " + answer.result.recommended->strategy : "Nothing fits";
  if (!answer.shown) return asked + " is not possible here";
  return asked + (answer.fits() ? " fits" : " does not fit");
}

/// Why this one was chosen, or what stands against the one that comes nearest.
std::string reason_text(const EstimateAnswer& answer, const Screen& screen) {
  if (!answer.shown) return "";
  const bool was_chosen = answer.fits() && answer.request.strategy == "auto";
  const std::string& reason = was_chosen ? answer.result.recommended->reason : answer.shown->does_not_fit_because;
  return reason.empty() ? "" : wrap(reason, prose_width(screen), "  ", "  ");
}

std::string verdict_text(const EstimateAnswer& answer, const Screen& screen) {
  const std::vector<std::string>& advice = answer.result.recommended->advice;
  std::string out = heading(verdict_title(answer), screen) + reason_text(answer, screen);
  if (!advice.empty())
    out += heading(answer.fits() ? "Worth knowing" : "What would help", screen) + points(advice, screen);
  return out;
}

}  // namespace

std::string estimate_text(const EstimateAnswer& answer, const Screen& screen) {
  std::string out = question_text(answer, screen) + "\n" + strategies_text(answer, screen);
  if (answer.result.recommended) out += verdict_text(answer, screen);
  if (answer.shown) out += closest_look_text(answer, screen);
  if (!answer.explanation.empty()) out += explanation_text(answer.explanation, screen);
  if (!answer.result.assumptions.empty())
    out += heading("Assumptions", screen) + points(answer.result.assumptions, screen);
  return out;
}

}  // namespace gpuplan
