// The prices a step program is run with: one cost model per kind of GPU, and which of them each rank has.
#pragma once

#include <vector>

#include "planner/comm_model.h"
#include "planner/cost.h"
#include "planner/job.h"

namespace gpuplan {

struct StepColumns {
  std::vector<CostModel> models;
  std::vector<std::size_t> of_rank;      // for plans: equal micro batches, so the slowest kind stands for every rank
  std::vector<std::size_t> own_of_rank;  // of the rank's own GPU, for the simulator
};

StepColumns make_columns(const Job& job);

/// Communication and copies, with the optimizer step of offloaded states at the rate of the engine that steps them.
CommModel make_step_comm(const Job& job);

/// The datasheet rates of the GPUs a strategy uses, together: what MFU and HFU divide by.
FlopsPerSec total_peak(const StepColumns& columns);

}  // namespace gpuplan
