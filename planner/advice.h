// Advice about the plan at hand: a table of rows, each with a condition and with lines whose figures are computed for
// this plan, where needed by estimating it again with a change (planner/changes.h). `explain` prints the rows whose
// condition holds; docs/advice.md lists all of them.
#pragma once

#include <span>

#include "planner/advice/rows.h"

namespace gpuplan {

/// Every row in the order of print: first those that may change the plan, then those that only describe it.
std::span<const AdviceRow* const> advice_rows();

struct Advice {
  std::string_view name, title;
  std::vector<ExplainLine> lines;
};

/// The rows whose condition holds, in the order of the table.
std::vector<Advice> advise(const AdviceCase& c);

}  // namespace gpuplan
