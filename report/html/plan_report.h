// The answer of `gpuplan plan` as one page that works offline: the sentence, the plans as a chart of time and cost that
// one can point at, their commands, and the knobs. Nothing is fetched.
#pragma once

#include <string>

#include "report/answers.h"

namespace gpuplan {

std::string plan_report(const PlanAnswer& answer);

}  // namespace gpuplan
