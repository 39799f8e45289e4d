// Bytes of one unit's training state on one rank: stored, gathered, gradients, optimizer. Sharding remainders and
// padding as the engine does them. Sources: torch fully_shard (dim-0 chunks), FSDP1 FlatParameter, DeepSpeed stage3
// partitioning.
#pragma once

#include "models/optimizers.h"
#include "models/trained_model.h"
#include "planner/strategy.h"

namespace gpuplan {

/// One rank's share of a unit (or of several: sizes add up).
struct StateSizes {
  Bytes trained, frozen;                    // stored on this rank (a shard, or everything)
  Bytes trained_gathered, frozen_gathered;  // whole, as gathered or cast for compute; 0 bytes when nothing is gathered
  Bytes full_gradient, gradient;            // unsharded in the dtype backward writes; what is kept for the step
  Bytes reduce_message;                     // unsharded gradient in the reduce dtype
  Bytes master, state, paged_state;         // fp32 master; optimizer state on the device; in managed memory
  Bytes step_gradient, step_temporary;      // ZeRO's fp32 gradient copy; foreach temporary
  Bytes step_scratch;                       // of a loop over the tensors: what the largest needs, not a sum
  std::int64_t trained_elements{};          // stepped by this rank
  std::int64_t gathered_elements{};
  StateSizes& operator+=(const StateSizes& other);
};

struct SizeRules {
  ShardingEngine engine = ShardingEngine::Local;
  StateLayout layout;
  std::int64_t ways = 1;                   // dp_shard
  std::int64_t rank = 0;                   // within the shard group; 0 holds the most
  std::int64_t persistence_threshold = 0;  // ZeRO-3: smaller tensors stay replicated, elements
  bool is_flat = false;  // our own executor: a unit's tensors are one flat array, cut evenly (planner/unit_layout.h)
};

SizeRules size_rules(const Strategy& strategy, const FrameworkConvention& framework, const ModelSpec& model);

/// The state of one unit, summed over its tensors.
StateSizes state_sizes(const std::vector<StateTensor>& tensors, const DtypePolicy& numerics, const Recipe& recipe,
                       const OptimizerSpec& optimizer, const SizeRules& rules);

/// The state of the whole model: every unit, summed.
StateSizes model_state(const TrainedModel& model, const DtypePolicy& numerics, const Recipe& recipe,
                       const SizeRules& rules);

}  // namespace gpuplan
