// The answer of `gpuplan validate` for people, and the page docs/accuracy.md.
#pragma once

#include <string>

#include "report/answers.h"
#include "report/text/screen.h"
#include "validate/report.h"

namespace gpuplan {

std::string validation_text(const ValidationAnswer& answer, const Screen& screen);

/// Markdown, the same for the same points and data: no dates, no paths.
std::string validation_report(const ValidationAnswer& answer, const Peers& peers);

}  // namespace gpuplan
