// Advice about the plan at hand: a table of rows, each with a condition and with lines whose figures are computed for
// this plan, where needed by estimating it again with a change (planner/changes.h). `explain` prints the rows whose
// condition holds; docs/advice.md lists all of them. Rows are defined in planner/advice.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/state_sizes.h"
#include "planner/strategy_estimate.h"

namespace gpuplan {

/// One line of `--explain`: a term, its value with units, and where it comes from.
struct ExplainLine {
  std::string term, value, source;
};

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

extern const AdviceRow kSaversNotNeeded, kCombinedSavers, kOptimizerVariants;  // savers.cpp
extern const AdviceRow kLargerBatch, kEffectiveBatch, kGenerationCache;        // batch.cpp
extern const AdviceRow kKeepGathered, kZeroOrFsdp;                             // sharding.cpp
extern const AdviceRow kQuantiseAlone, kMixedPrecision, kBf16Weights;          // precision.cpp

/// A row of `changes()` and the value it is set to.
struct NamedSetting {
  std::string_view name;
  std::string value;
};

/// The plan with these settings, without its limits; nothing when the recipe makes no sense or is not possible under
/// the strategy.
std::optional<StrategyEstimate> estimate_with(const AdviceCase& c, std::initializer_list<NamedSetting> settings);

/// The recipe with these settings.
Recipe recipe_with(const AdviceCase& c, std::initializer_list<NamedSetting> settings);

/// Training state of one rank, and of the whole model before sharding.
StateSizes rank_state(const AdviceCase& c, const Recipe& recipe);
StateSizes whole_state(const AdviceCase& c, const Recipe& recipe);

/// Weights that are trained, their gradients as kept for the step, fp32 masters and optimizer states.
Bytes trained_state(const StateSizes& sizes);

double per_parameter(Bytes bytes, std::int64_t parameters);

/// "12.3 GiB, 312 ms".
std::string peak_and_step(const StrategyEstimate& e);
inline Bytes peak_of(const StrategyEstimate& e) { return e.tiers.tensors; }

/// Every row in the order of print: first those that may change the plan, then those that only describe it.
std::span<const AdviceRow* const> advice_rows();

struct Advice {
  std::string_view name, title;
  std::vector<ExplainLine> lines;
};

/// The rows whose condition holds, in the order of the table.
std::vector<Advice> advise(const AdviceCase& c);

}  // namespace gpuplan
