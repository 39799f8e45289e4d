// The whole program as one function: arguments in, exit code out. The one place that catches errors.
#pragma once

#include <iostream>
#include <string>
#include <vector>

#include "report/text/screen.h"

namespace gpuplan {

/// Runs `gpuplan args...`. The answer goes to `out`; errors, warnings and progress go to `err`.
/// Returns 0 yes, 1 the answer is no, 2 wrong input, 3 the world failed, 4 our own bug.
int run(const std::vector<std::string>& args, std::ostream& out, std::ostream& err, const Screen& screen = {},
        std::istream& in = std::cin);

}  // namespace gpuplan
