// Internal to the plan file: its sections, each as a pair of a writer and a reader over one list of fields.
#pragma once

#include "base/archive.h"
#include "cluster/cluster_spec.h"
#include "models/recipe_names.h"
#include "planner/estimate.h"

namespace gpuplan {

constexpr std::int64_t kMostCount = 1'000'000'000;
constexpr IntRange kCount{0, kMostCount};
constexpr IntRange kAtLeastOne{1, kMostCount};
/// Gives what was computed from numbers of a plan.
constexpr NumberRange kAnyAmount{0, std::numeric_limits<double>::max()};

void write_recipe(FieldWriter& out, const Recipe& recipe);
void read_recipe(Fields& in, Recipe& recipe);

void write_dataset(FieldWriter& out, const Dataset& dataset);
void read_dataset(Fields& in, Dataset& dataset);

/// Complete: what is read back needs no catalogue. Neighbouring ranks with identical GPUs share one entry with a count.
void write_cluster(FieldWriter& out, const ClusterSpec& cluster);
void read_cluster(Fields& in, ClusterSpec& cluster);

/// The degrees of a file, in its order: those of every file, then those that are left out where they are 1.
inline constexpr std::array<std::string_view, 7> kDegrees{"dp_replicate", "dp_shard", "tp", "pp", "cp", "ep", "etp"};
constexpr std::size_t kNumUsualDegrees = 6;

/// The strategy section as it stands in the file.
struct PlanStrategy {
  std::string name;
  std::array<std::int64_t, kDegrees.size()> degrees{1, 1, 1, 1, 1, 1, 1};
  std::int64_t zero_stage = 0;  // 1 optimizer, 2 and gradients, 3 and weights sharded
  bool reshard_after_forward = true;
  WrapPolicy wrap = WrapPolicy::Layer;
  std::int64_t wrap_min_params = 0;
  std::optional<std::int64_t> fsdp_version;  // null when the engine is not FSDP
};

void write_strategy(FieldWriter& out, const Strategy& strategy);
void read_strategy(Fields& in, PlanStrategy& strategy);

/// Pins `request` to `wanted` and notes where `plan`, the whole file, says something else than that strategy is on this
/// cluster. Requires: the cluster and options.shard_size are read, without problems.
void pin_strategy(const PlanStrategy& wanted, EstimateRequest& request, Fields& plan);

}  // namespace gpuplan
