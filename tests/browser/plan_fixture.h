// An answer of `gpuplan plan` made by hand, for the browser test.
#pragma once

#include <string>

#include "report/answers.h"

namespace gpuplan::testing {

/// Three plans, the last one tight; names hold `name`.
PlanAnswer small_plan(const std::string& name);

}  // namespace gpuplan::testing
