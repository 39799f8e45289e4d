// The whole program as one function: arguments in, exit code out. The one place that catches errors.
#pragma once

#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "base/surroundings.h"
#include "report/text/screen.h"

namespace gpuplan {

/// Runs `gpuplan args...`. The answer goes to `out`; errors, warnings and progress go to `err`.
/// Returns 0 yes, 1 the answer is no, 2 wrong input, 3 environment error, 4 internal error.
int run(const std::vector<std::string>& args, std::ostream& out, std::ostream& err, const Screen& screen = {},
        std::istream& in = std::cin);

struct Answer {
  int code = 0;
  std::string out, err;
  std::map<std::string, std::string> written;  // content by path
};

/// The same as a function of its arguments: nothing is read but `given`, the input and the shipped data, and nothing
/// is written but the answer. Commands that need a machine are refused. One at a time in a process; each answers as a
/// process of its own would.
Answer answer(const std::vector<std::string>& args, Surroundings given, const std::string& input = {},
              const Screen& screen = {});

}  // namespace gpuplan
