// What the field teaches about a plan like the one at hand: a table of rows, each with a condition and with lines whose
// figures are computed for this plan, if need be by estimating it again with something changed
// (planner/advice/what_if.h). `explain` prints the rows whose condition holds; docs/advice.md lists all of them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/estimate.h"
#include "planner/explain.h"

namespace gpuplan {

/// The plan that advice is about: one applicable strategy of an answer.
struct AdviceCase {
  const EstimateRequest& request;
  const EstimateResult& result;
  const StrategyEstimate& chosen;
};

/// One piece of advice. A row with one line is a text; one with several is a table with a section of its own.
struct AdviceRow {
  std::string_view name;       // "larger-batch"
  std::string_view title;      // what it is called in print
  std::string_view condition;  // `applies` in words; docs/advice.md says the same
  bool (*applies)(const AdviceCase& c);
  std::vector<ExplainLine> (*lines)(const AdviceCase& c);  // Requires: applies(c)
};

/// Every row, in the order of print: what may change the plan first, what only tells about it last.
std::span<const AdviceRow* const> advice_rows();

struct Advice {
  std::string_view name, title;
  std::vector<ExplainLine> lines;
};

/// The rows whose condition holds, in the order of the table.
std::vector<Advice> advise(const AdviceCase& c);

}  // namespace gpuplan
