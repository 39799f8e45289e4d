// The event run of a step program: every simulated rank with its streams, the network between them, one clock.
// What waits for what is the rule of planner/program_walk, as in the forward pass; what differs is that data moves
// through a Network and that work slows down while it shares the GPU or the host.
#pragma once

#include <memory>
#include <vector>

#include "sim/folding.h"
#include "sim/network.h"
#include "sim/simulated_step.h"

namespace gpuplan {

/// Holds what the engine leaves for the analysis: the spans of all ranks in order of their end, and from where to where
/// messages went.
struct EngineResult {
  SimTime step;
  std::vector<Span> spans;
  std::vector<Message> messages;
  std::vector<double> flops;  // per simulated rank, executed
  std::uint64_t num_events{};
};

EngineResult run_engine(const SimInput& input, const SimOptions& options, const Folding& folding,
                        const Communicators& communicators, Network& network, EventQueue& queue);

}  // namespace gpuplan
