// What a change of the recommended plan, or of a question without an answer, gives.
#pragma once

#include <vector>

#include "search/plan_row.h"
#include "search/search.h"

namespace gpuplan {

// The price of every knob: the recommended plan with one thing changed, its machine and the tokens of a step kept.

/// Each other value that the search tries, the other strategies, half and twice the micro batch, the other methods,
/// and twice and half the GPUs; those that change neither time nor memory visibly are left out.
std::vector<Knob> knobs_of(const Space& space, const PlanRow& plan);

// What to change in a question that has no answer.

/// The smallest changes of the question under which something meets its limits: each alone, the ones that take least
/// from what was asked first. `fitting`: the plans of the space that fit, within its limits or not; what is not a limit
/// is searched anew.
std::vector<WouldDo> what_would_do(const Space& space, const std::vector<RankedPlan>& fitting,
                                   const SearchOptions& options);

/// The cheapest machine that could be rented instead; empty where none does.
std::vector<WouldDo> or_rent(const SearchQuestion& question, const SearchOptions& options);

}  // namespace gpuplan
