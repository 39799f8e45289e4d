// How a rank spends the step: busy time per stream, both senses of utilisation, and what its compute stream waits for.
#pragma once

#include <vector>

#include "sim/simulation.h"

namespace gpuplan {

/// Fills busy, resident, compute, exposed_communication, bubble, host_bound and idle of `rank` from its spans in [0,
/// step). Every moment of the compute stream's idle time is counted once: as exposed communication while a collective,
/// message or copy is under way; else as bubble while a message from another stage is awaited; else as host bound
/// before what the host launched late; else as idle.
void measure_rank(SimulatedRank& rank, const std::vector<Span>& spans, const std::vector<std::uint32_t>& of_rank,
                  SimTime step);

}  // namespace gpuplan
