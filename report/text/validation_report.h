// The page docs/accuracy.md: everything a validation found, and what other tools reach on the same points.
#pragma once

#include <string>

#include "report/validation_answer.h"
#include "validate/peers.h"

namespace gpuplan {

/// Markdown, the same for the same points and data: no dates, no paths.
std::string validation_report(const ValidationAnswer& answer, const Peers& peers);

}  // namespace gpuplan
