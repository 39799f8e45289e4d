// What to change in a question that has no answer.
#pragma once

#include <vector>

#include "search/plan_row.h"
#include "search/search.h"

namespace gpuplan {

/// The smallest changes of the question under which something meets its limits: each alone, the ones that take least
/// from what was asked first. Each is searched.
std::vector<WouldDo> what_would_do(const SearchQuestion& question, const SearchOptions& options);

/// The cheapest machine that could be rented instead; empty where none does.
std::vector<WouldDo> or_rent(const SearchQuestion& question, const SearchOptions& options);

}  // namespace gpuplan
