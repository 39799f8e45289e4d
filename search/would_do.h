// What to change in a question that has no answer.
#pragma once

#include <vector>

#include "search/plan_row.h"
#include "search/search.h"

namespace gpuplan {

/// The smallest changes of the question under which something meets its limits: each alone, the ones that take least
/// from what was asked first. `fitting`: the plans of the space that fit, within its limits or not; what is not a limit
/// is searched anew.
std::vector<WouldDo> what_would_do(const Space& space, const std::vector<RankedPlan>& fitting,
                                   const SearchOptions& options);

/// The cheapest machine that could be rented instead; empty where none does.
std::vector<WouldDo> or_rent(const SearchQuestion& question, const SearchOptions& options);

}  // namespace gpuplan
