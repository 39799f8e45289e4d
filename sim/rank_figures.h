// What the spans of a rank add up to: how it spends the step, and its memory over time.
#pragma once

#include <vector>

#include "sim/simulated_step.h"

namespace gpuplan {

/// Fills busy, resident, compute, exposed_communication, bubble, host_bound and idle of `rank` from its spans in [0,
/// step). Every moment of the compute stream's idle time is counted once: as exposed communication while a collective,
/// message or copy is under way; else as bubble while a message from another stage is awaited; else as host bound
/// before what the host launched late; else as idle.
void measure_rank(SimulatedRank& rank, const std::vector<Span>& spans, const std::vector<std::uint32_t>& of_rank,
                  SimTime step);

/// Live device bytes over the step: the changes of the memory replay, in program order, at the moments when the run
/// reached them.
///
/// `of_rank`: the spans of one rank in program order. A change never comes before the one before it in the program, so
/// the highest point is the peak of the memory replay. Thinned to about `max_points`, peaks kept.
std::vector<MemoryPoint> memory_timeline(const StepProgram& all, const RankProgram& program,
                                         const std::vector<Span>& spans, const std::vector<std::uint32_t>& of_rank,
                                         std::size_t max_points);

}  // namespace gpuplan
