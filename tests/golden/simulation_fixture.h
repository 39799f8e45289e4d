// A small simulation made by hand, so that pictures of it can be checked by counting: two GPUs, ten spans, 100 ms.
#pragma once

#include <cstddef>

#include "report/answers.h"

namespace gpuplan::testing {

/// Two pipeline stages, one layer each. GPU 0: forward 0-20 ms, send 20-25, receive 65-70, backward 70-100 (with a
/// recompute of 10 ms before), GPU 1: receive 20-25, forward 25-35, head 35-40, backward 40-65, send 65-70, optimizer
/// 70-80.
SimulationAnswer small_simulation();

/// As above with names that would break out of HTML, JSON and scripts.
SimulationAnswer hostile_simulation();

/// One GPU, `num_spans` spans of alternating activity on two streams.
SimulationAnswer large_simulation(std::size_t num_spans);

}  // namespace gpuplan::testing
