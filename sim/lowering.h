// How a collective is carried out: the algorithm, the latencies of its steps and what its protocol adds to the bytes.
#pragma once

#include "planner/collective.h"
#include "planner/comm_model.h"
#include "sim/network.h"

namespace gpuplan {

struct Lowering {
  Algorithm algorithm{};
  Seconds base;                    // once per call, and per piece of a cut one
  Seconds intra_step, inter_step;  // latency of a step inside a machine, between machines
  std::int64_t intra_steps{}, inter_steps{};
  double wire_factor = 1;          // bytes on the wire per byte of payload

  Seconds all_steps() const { return double(intra_steps) * intra_step + double(inter_steps) * inter_step; }
  /// Of one of the equal steps that a ring is played with: so the whole takes what the closed form says, and a ring of
  /// which only some members are simulated takes no more or less.
  Seconds mean_step() const { return all_steps() / double(intra_steps + inter_steps); }
};

/// What CommModel's closed forms assume for this call. Requires a communicator of two or more.
Lowering lower(const CollectiveCall& call, const Communicator& communicator, const CommModel& comm);

}  // namespace gpuplan
