// Live device bytes over the step: the changes of the memory replay, in program order, at the moments when the run
// reached them.
#pragma once

#include <vector>

#include "sim/simulation.h"

namespace gpuplan {

/// `of_rank`: the spans of one rank in program order. A change never comes before the one before it in the program, so
/// the highest point is the peak of the memory replay. Thinned to about `max_points`, peaks kept.
std::vector<MemoryPoint> memory_timeline(const StepProgram& all, const RankProgram& program,
                                         const std::vector<Span>& spans, const std::vector<std::uint32_t>& of_rank,
                                         std::size_t max_points);

}  // namespace gpuplan
