// Which state is sharded how, over which axis of the device mesh. A strategy is a schedule (planner/stage_schedule.cpp)
// and a StateLayout; the eight data-parallel ones are rows of one table. A block rewrite (tensor, sequence, expert
// parallelism) will be a third part.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cluster/cluster_spec.h"
#include "models/mesh.h"
#include "models/model_spec.h"
#include "models/numerics.h"
#include "models/recipe.h"

namespace gpuplan {

enum class Schedule : std::uint8_t { Sequential, Naive, GPipe, OneFOneB, Interleaved };

/// Says how the training state is laid out. Everything a builder decides about gathers, reduces and steps follows from
/// it.
struct StateLayout {
  bool shards_optimizer = false, shards_gradients = false, shards_weights = false;
  bool reshards_after_forward = true;  // false: gathered weights stay until their backward
  bool operator==(const StateLayout&) const = default;
};

enum class WrapPolicy : std::uint8_t { Layer, Size };

/// Holds what is gathered at once: a layer, or at least so many parameters.
struct Wrap {
  WrapPolicy policy = WrapPolicy::Layer;
  std::int64_t min_params = 0;
};
/// "layer" or "size:N", as `--wrap` and plan files spell it. Throws InputError naming `where`.
Wrap parse_wrap(std::string_view text, std::string_view where);
std::string to_string(const Wrap& wrap);

/// Layers of each stage of a pipeline; 0: an even share of those that no other stage has. Empty: as many in each.
using StageLayers = std::vector<std::int64_t>;
constexpr std::int64_t kMostStages = 1 << 10, kMostLayersOfStage = 1 << 10;  // no model has more layers
/// "6,8,8,5", as `--stage-layers` and plan files spell it. Throws InputError naming `where`.
StageLayers parse_stage_layers(std::string_view text, std::string_view where);
std::string to_string(const StageLayers& layers);

/// One row of `gpuplan estimate`: a named strategy with its degrees.
struct Strategy {
  std::string name = "single";
  Schedule schedule = Schedule::Sequential;
  ShardingEngine engine = ShardingEngine::Local;
  StateLayout layout;
  Mesh mesh;
  std::int64_t chunks = 1;  // of layers, that each stage of a pipeline has
  StageLayers stage_layers;
  std::optional<bool> overlaps_tensor_parallel;  // as StrategyOptions
  WrapPolicy wrap = WrapPolicy::Layer;
  std::int64_t wrap_min_params = 0;  // of size:N
  int simplicity = 0;                // tie-break: lower wins

  /// With its degrees where layers are shared: "fsdp tp2·dp4".
  std::string title() const;
  /// Its stages compute one after the other.
  bool takes_turns() const { return schedule == Schedule::Naive && mesh.num_stages() > 1; }
  bool is_one_gpu() const { return engine == ShardingEngine::Local && mesh.world() == 1; }
  /// Whole copies of model and training state on several GPUs.
  bool is_replicated() const { return !layout.shards_optimizer && mesh.copies() > 1; }
  bool operator==(const Strategy&) const = default;
};

/// Holds what the user may pin on the command line.
struct EngineConvention;

struct StrategyOptions {
  std::int64_t tp = 1;                              // ranks that share each layer
  bool splits_sequence = false;                     // … hold their part of the sequence between its products
  std::int64_t cp = 1;                              // of the data parallel ranks, those that share each sequence
  std::optional<ContextExchange> context_exchange;  // unset: the trainer's usual one
  std::int64_t ep = 1;                              // of the ranks of a stage, those that share the experts
  std::int64_t etp = 0;                             // … and those that share each of them; 0: as the trainer does
  std::int64_t pp = 1, virtual_stages = 1;          // stages of a pipeline, and chunks of layers of each
  StageLayers stage_layers;
  /// Exchanges of ranks that share layers run beside the products; unset: what the trainer's record says.
  std::optional<bool> overlaps_tensor_parallel;
  std::optional<Schedule> schedule;        // unset: one forward, one backward, interleaved where stages have chunks
  std::optional<std::int64_t> shard_size;  // sharding factor; 1 equals ddp, N equals full sharding
  std::optional<int> fsdp_version;         // unset: 2, or 1 where FSDP2 cannot shard the base (QLoRA)
  WrapPolicy wrap = WrapPolicy::Layer;
  std::int64_t wrap_min_params = 0;
  bool reshards = true;
  // of a DeepSpeed configuration, by its names; unset: what the framework's record says
  std::optional<std::int64_t> reduce_bucket_size;  // elements; -1: hidden^2
  std::optional<bool> overlap_comm;
  std::optional<bool> zero_quantized_weights;

  std::int64_t ways_of_expert() const { return etp > 0 ? etp : 1; }
};

/// `zero` as these options set it, where it is DeepSpeed.
void apply_zero_options(const StrategyOptions& options, EngineConvention& zero);

/// Says which axes of the mesh a strategy lays its GPUs along.
enum class Degrees : std::uint8_t { One, Pipeline, Replicate, Shard, Hybrid };

/// Holds what the table says of a strategy, whatever the cluster.
struct StrategyRow {
  std::string_view name;
  Schedule schedule;
  ShardingEngine engine;
  StateLayout layout;
  Degrees degrees;
  bool can_offload_optimizer, can_offload_params;
};

/// Simplest first: the order in which ties are broken.
/// GPUs that a strategy may lay along its axes: groups that share layers.
std::int64_t num_places(const ClusterSpec& cluster, const StrategyOptions& options);
/// "tp2·dp4": the degrees above 1, data parallel ones together; empty where no layer is shared.
std::string degrees_text(const Mesh& mesh);

std::span<const StrategyRow> strategy_rows();
std::span<const std::string_view> strategy_names();

/// Says whether the framework's trainer has a strategy.
bool has_strategy(const FrameworkConvention& framework, std::string_view name);
/// The first of them that uses all of so many GPUs.
std::string_view simplest_strategy(std::int64_t num_gpus);
/// The one that differs from `name` in gathering weights again for backward alone; `name` where there is none.
std::string strategy_that_reshards(std::string_view name);

/// Holds what DeepSpeed and FSDP call the strategies that shard the same.
struct Counterparts {
  std::string_view deepspeed, fsdp;
  std::array<std::string_view, 2> strategies;  // ours, of the two sides; empty: none
};
std::span<const Counterparts> counterparts();

/// Says of a strategy whether its stages are the GPUs themselves (mp), and not a degree that is asked for.
bool lays_stages(std::string_view name);

/// The canonical name of any spelling ("FULL_SHARD", "SHARD_GRAD_OP", "naive", "deepspeed-zero3", …).
/// Throws InputError for `--strategy` with the nearest names.
std::string canonical_strategy(std::string_view text);

/// Says why `name` cannot be had on this cluster: the shard size does not divide the ranks.
std::optional<InputError> strategy_mistake(std::string_view name, const ClusterSpec& cluster,
                                           const StrategyOptions& options);
/// `name` on this cluster. Throws InputError where there is a strategy_mistake.
Strategy make_strategy(std::string_view name, const ClusterSpec& cluster, const StrategyOptions& options);

/// The strategy that shards nothing: every GPU has the whole model.
std::string_view whole_copies(std::int64_t num_gpus);

/// The strategy that a described set-up amounts to: hybrid sharding over all GPUs is full sharding; on one GPU it is an
/// engine that offloads, though it shards nothing there.
std::string equivalent_strategy(std::string_view name, std::int64_t num_gpus, const StrategyOptions& options,
                                const Offload& offload);

/// Says why ranks cannot share layers so, or stages of a pipeline be laid so; empty where they can.
std::string why_not_divided(const Strategy& strategy, const Recipe& recipe, const ModelSpec& model);
/// Says why a strategy cannot be used here ("needs at least 2 GPUs", "no optimizer offload"), or empty.
std::string why_not_applicable(const Strategy& strategy, const ClusterSpec& cluster, const Recipe& recipe,
                               const ModelSpec& model);

}  // namespace gpuplan
