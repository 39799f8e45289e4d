// Bytes of one unit's training state on one rank: stored, gathered, gradients, optimizer. Sharding remainders and
// padding as the engine does them. Sources: torch fully_shard (dim-0 chunks), FSDP1 FlatParameter, DeepSpeed stage3
// partitioning.
#pragma once

#include "models/optimizers.h"
#include "models/trained_model.h"
#include "planner/strategy.h"
#include "planner/unit_layout.h"

namespace gpuplan {

/// One rank's share of a unit (or of several: sizes add up).
struct StateSizes {
  Bytes trained, frozen;                    // stored on this rank (a shard, or everything)
  Bytes trained_gathered, frozen_gathered;  // whole, as gathered or cast for compute; 0 bytes when nothing is gathered
  Bytes full_gradient, gradient;            // unsharded in the dtype backward writes; what is kept for the step
  Bytes partial_gradient;                   // of what ranks that share the layer still sum
  Bytes reduce_message;                     // unsharded gradient in the reduce dtype
  Bytes master, state, paged_state;         // fp32 master; optimizer state on the device; in managed memory
  Bytes step_gradient, step_temporary;      // ZeRO's fp32 gradient copy; what the step holds of every tensor at once
  Bytes step_scratch;                       // of a loop over the tensors: what the largest needs, not a sum
  Bytes largest_fetch, largest_gradient;    // of one parameter, as it is gathered; a leaf module counts as one
  double step_flops{};                      // products of the step: a rank's share of the matrices
  std::int64_t trained_elements{};          // stepped by this rank
  std::int64_t gathered_elements{};
  std::int64_t trained_gathers{}, frozen_gathers{};  // messages of one gather of this unit
  std::int64_t trained_leaves{}, frozen_leaves{};    // parameters that come in another's message, of a leaf module
  StateSizes& operator+=(const StateSizes& other);
};

struct SizeRules;

/// The state of one unit, summed over its tensors. One sizer per StateArrays.
using StateSizer = StateSizes (*)(const StateList& tensors, const DtypePolicy& numerics, const Recipe& recipe,
                                  const SizeRules& rules);
/// Every tensor by itself, as torch and DeepSpeed shard and pad it.
StateSizes per_tensor_sizes(const StateList& tensors, const DtypePolicy& numerics, const Recipe& recipe,
                            const SizeRules& rules);
/// Gives what is trained and what is frozen as one array each (planner/unit_layout.h).
StateSizes flat_sizes(const StateList& tensors, const DtypePolicy& numerics, const Recipe& recipe,
                      const SizeRules& rules);
StateSizer sizer_of(StateArrays arrays);

struct SizeRules {
  ShardingEngine engine = ShardingEngine::Local;
  StateLayout layout;
  Domain domain;                           // of what is sized
  std::int64_t ways = 1;                   // into which it is cut
  Domain experts;                          // of experts that ranks share: they are cut in other ways
  std::int64_t expert_ways = 0;            // 0: nobody shares them, and they are cut as the rest is
  std::int64_t rank = 0;                   // within the shard group; 0 holds the most
  std::int64_t persistence_threshold = 0;  // ZeRO-3: smaller tensors stay replicated, elements
  bool shards_rows = false;                // EngineConvention::shards_rows
  bool steps_host_copy = false;            // the optimizer steps a copy on the host of weights on the device
  bool keeps_weights_on_host = false;      // they are copied in where they are used, by one rank too
  bool gathers_parameters = false;         // EngineConvention::gathers_parameters
  bool has_leaf_experts = false;           // this model is one of EngineConvention::leaf_experts
  NewtonSchulz newton_schulz{};            // EngineConvention::newton_schulz
  bool steps_flat = false;                 // DeepSpeed: the optimizer sees one flat tensor per sub-group
  std::int64_t sub_group_size = -1;        // of those, elements of one rank at least; -1: one for all
  bool trains = true;                      // false: of a pass without gradients, whose weights alone are there
  StateSizer sizer = per_tensor_sizes;

  bool has_experts_apart() const { return expert_ways > 0; }
  /// The same for experts that ranks share.
  SizeRules of_experts() const {
    SizeRules own = *this;
    own.domain = experts, own.ways = expert_ways, own.expert_ways = 0;
    return own;
  }
  bool gathers() const { return layout.shards_weights && (ways > 1 || keeps_weights_on_host); }
};

SizeRules size_rules(const Strategy& strategy, const FrameworkConvention& framework, const ModelSpec& model,
                     const Recipe& recipe);

/// Holds the sizes of experts that ranks share, and of the rest of a unit.
struct UnitSizes {
  StateSizes rest, experts;
};
UnitSizes unit_sizes(const StateList& tensors, const DtypePolicy& numerics, const Recipe& recipe,
                     const SizeRules& rules);
/// Gives both together.
StateSizes state_sizes(const StateList& tensors, const DtypePolicy& numerics, const Recipe& recipe,
                       const SizeRules& rules);

/// In which dtypes a unit's flat trained array is stepped, used by compute, given gradients, and kept where it is
/// used: `stored`, unless the host steps a copy of its own and sends back what compute uses.
struct TrainedDtypes {
  Dtype stored{}, used{}, gradient{}, kept{};
};
TrainedDtypes trained_dtypes(const UnitLayout& layout, const DtypePolicy& numerics, const Recipe& recipe,
                             const SizeRules& rules);

/// The state of the whole model: every unit, summed.
StateSizes model_state(const TrainedModel& model, const DtypePolicy& numerics, const Recipe& recipe,
                       const SizeRules& rules);

}  // namespace gpuplan
