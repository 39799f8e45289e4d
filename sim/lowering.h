// How one piece of a collective is carried out: NCCL's choice of algorithm, as what the flow network needs of it.
#pragma once

#include "planner/comm_model.h"
#include "sim/network.h"

namespace gpuplan {

struct Lowering {
  Algorithm algorithm{};
  Seconds base, all_steps;  // latencies: once per piece, of all steps together
  double wire_bytes{};      // payload that each rank sends (mean), with what the protocol adds and the switch saves
  Seconds wire_time;        // what these take on the links of the group
  Bytes payload;            // of the whole call
};

/// Of a call cut into call.num_messages pieces. Requires a communicator of two or more.
Lowering lower(const CollectiveCall& call, const CommGroup& communicator, const CommModel& comm);

}  // namespace gpuplan
