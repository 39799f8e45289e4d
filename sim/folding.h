// Which ranks are simulated. Ranks that behave alike are simulated once: the step program, the mesh and the machine are
// then unchanged when every rank moves on by one machine (or by one GPU where a machine's GPUs see the same).
#pragma once

#include <vector>

#include "cluster/topology.h"
#include "planner/step_program.h"
#include "sim/network.h"
#include "sim/simulated_step.h"

namespace gpuplan {

struct Folding {
  std::vector<std::int64_t> ranks;            // simulated, ascending
  std::vector<std::int64_t> stands_for;       // real ranks each of them stands for
  std::vector<std::uint32_t> representative;  // per real rank: index into `ranks`
  TopologyFold topology;                      // what of the machine is kept
  bool is_folded() const { return ranks.size() < representative.size(); }
};

Folding fold_ranks(const SimInput& input, const SimOptions& options);

/// The communicators of the simulated ranks, and which one a rank uses along an axis.
struct Communicators {
  std::vector<CommGroup> all;
  struct Place {
    std::uint32_t communicator{}, member{};
  };
  std::vector<std::array<Place, kNumAxes>> of_rank;  // per simulated rank
};

/// `topology` gives the order of rings; without one ranks stand in the order of their numbers.
Communicators make_communicators(const SimInput& input, const Folding& folding, const Topology* topology);

}  // namespace gpuplan
