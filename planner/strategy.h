// Which state is sharded how, over which axis of the device mesh. A strategy is a schedule (planner/schedule.h) and a
// StateLayout; the eight data-parallel ones are rows of one table. A block rewrite (tensor, sequence, expert
// parallelism) will be a third part.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "cluster/cluster_spec.h"
#include "models/model_spec.h"
#include "models/numerics.h"
#include "models/recipe.h"

namespace gpuplan {

enum class Axis : std::uint8_t { None, DpShard, DpReplicate, Pp };
constexpr int kNumAxes = 4;

/// Degrees of the device mesh; their product is the number of ranks used. Ranks: pp outermost, then dp_replicate,
/// dp_shard.
struct Mesh {
  std::int64_t dp_replicate = 1, dp_shard = 1, pp = 1;
  std::int64_t world() const { return dp_replicate * dp_shard * pp; }
  std::int64_t data_parallel() const { return dp_replicate * dp_shard; }
  /// Between neighbours of a group along `axis`, in ranks.
  std::int64_t stride(Axis axis) const {
    return axis == Axis::Pp ? data_parallel() : axis == Axis::DpReplicate ? dp_shard : 1;
  }
  std::int64_t ways(Axis axis) const {
    return axis == Axis::DpShard ? dp_shard : axis == Axis::DpReplicate ? dp_replicate : axis == Axis::Pp ? pp : 1;
  }
  bool operator==(const Mesh&) const = default;
};

enum class Schedule : std::uint8_t { Sequential, Naive };

/// How the training state is laid out. Everything a builder decides about gathers, reduces and steps follows from it.
struct StateLayout {
  bool shards_optimizer = false, shards_gradients = false, shards_weights = false;
  bool reshards_after_forward = true;  // false: gathered weights stay until their backward
  bool operator==(const StateLayout&) const = default;
};

enum class WrapPolicy : std::uint8_t { Layer, Size };

/// What is gathered at once: a layer, or at least so many parameters.
struct Wrap {
  WrapPolicy policy = WrapPolicy::Layer;
  std::int64_t min_params = 0;
};
/// "layer" or "size:N", as `--wrap` and plan files spell it. Throws InputError naming `where`.
Wrap parse_wrap(std::string_view text, std::string_view where);
std::string to_string(const Wrap& wrap);

/// One row of `gpuplan estimate`: a named strategy with its degrees.
struct Strategy {
  std::string name = "single";
  Schedule schedule = Schedule::Sequential;
  ShardingEngine engine = ShardingEngine::Local;
  StateLayout layout;
  Mesh mesh;
  WrapPolicy wrap = WrapPolicy::Layer;
  std::int64_t wrap_min_params = 0;  // of size:N
  int simplicity = 0;                // tie-break: lower wins

  bool is_one_gpu() const { return engine == ShardingEngine::Local && mesh.world() == 1; }
  /// Whole copies of model and training state on several GPUs.
  bool is_replicated() const { return !layout.shards_optimizer && mesh.dp_replicate > 1; }
};

/// What the user may pin on the command line.
struct EngineConvention;

struct StrategyOptions {
  std::optional<std::int64_t> shard_size;  // sharding factor; 1 equals ddp, N equals full sharding
  std::optional<int> fsdp_version;         // unset: 2, or 1 where FSDP2 cannot shard the base (QLoRA)
  WrapPolicy wrap = WrapPolicy::Layer;
  std::int64_t wrap_min_params = 0;
  bool reshards = true;
  // of a DeepSpeed configuration, by its names; unset: what the framework's record says
  std::optional<std::int64_t> reduce_bucket_size;  // elements; -1: hidden^2
  std::optional<bool> overlap_comm;
  std::optional<bool> zero_quantized_weights;
};

/// `zero` as these options set it, where it is DeepSpeed.
void apply_zero_options(const StrategyOptions& options, EngineConvention& zero);

/// The names, simplest first: the order in which ties are broken.
std::span<const std::string_view> strategy_names();

/// The canonical name of any spelling ("FULL_SHARD", "SHARD_GRAD_OP", "naive", "deepspeed-zero3", …).
/// Throws InputError for `--strategy` with the nearest names.
std::string canonical_strategy(std::string_view text);

/// Why `name` cannot be had on this cluster: the shard size does not divide the ranks.
std::optional<InputError> strategy_mistake(std::string_view name, const ClusterSpec& cluster,
                                           const StrategyOptions& options);
/// `name` on this cluster. Throws InputError where there is a strategy_mistake.
Strategy make_strategy(std::string_view name, const ClusterSpec& cluster, const StrategyOptions& options);

/// The strategy that a described set-up amounts to: hybrid sharding over all GPUs is full sharding; on one GPU it is an
/// engine that offloads, though it shards nothing there.
std::string equivalent_strategy(std::string_view name, std::int64_t num_gpus, const StrategyOptions& options,
                                const Offload& offload);

/// Why a strategy cannot be used here ("needs at least 2 GPUs", "no optimizer offload"), or empty.
std::string why_not_applicable(const Strategy& strategy, const ClusterSpec& cluster, const Recipe& recipe,
                               const ModelSpec& model);

}  // namespace gpuplan
