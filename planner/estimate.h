// The answer of `gpuplan estimate`: every strategy on one cluster, what fits, how fast, at what cost, and one
// recommended.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster_spec.h"
#include "cluster/profile/profile.h"
#include "models/framework.h"
#include "models/recipe.h"
#include "models/trained_model.h"
#include "planner/accuracy.h"
#include "planner/coverage.h"
#include "planner/memory.h"
#include "planner/program_builder.h"
#include "planner/step_time.h"
#include "planner/strategy.h"
#include "planner/tiers.h"

namespace gpuplan {

enum class Preference : std::uint8_t { Speed, Cost, Memory };
enum class CommunicationLevel : std::uint8_t { None, Low, Modest, High };
std::string_view to_string(CommunicationLevel level);

/// Everything `estimate` needs; made by the command line or read from a plan file.
struct EstimateRequest {
  ModelSpec model;
  Recipe recipe;
  Dataset dataset;
  ClusterSpec cluster;
  StrategyOptions options;
  std::string strategy = "auto";  // canonical name or "auto"
  Preference preference = Preference::Speed;
  std::optional<double> price_per_gpu_hour;  // overrides the cluster's
  std::int64_t eval_generate = 0;            // tokens generated per sequence during evaluation: adds a KV cache
  std::shared_ptr<const Profile> profile;    // null: the shipped one of the first GPU
  MachinePace pace;                          // of the machine now, over that profile
};

/// Host memory of one node. `load` is while the checkpoint is read, `step` in training (offload), `save` when the model
/// is written.
struct HostBytes {
  Bytes load, load_efficient;  // every rank reads a full copy; cpu_ram_efficient_loading: one does
  Bytes step, nvme;
  Bytes save;
  Bytes capacity;  // 0: not known
  Bytes needed() const { return load_efficient > step ? load_efficient : step; }
  bool fits = true;  // of what is known; load_efficient and step are compared
};

/// What saving costs.
struct SaveCost {
  Bytes disk, disk_with_optimizer, device_peak;
};

/// One row of the table. Figures are of the fullest rank.
struct StrategyEstimate {
  Strategy strategy;
  std::string not_applicable;        // reason; the figures below are then empty
  bool fits{};                       // device and host
  std::string does_not_fit_because;  // "needs 3.1 GiB more than …", empty when it fits
  Peak peak;
  MemoryTiers tiers;
  std::string peak_instant;                                 // "logits and loss"
  std::array<Bytes, std::size_t(kNumCategories)> memory{};  // adds up to tiers.process
  std::vector<DetailedPeak::Item> items;                    // tensors live at the peak, largest first
  std::vector<CurvePoint> curve;
  std::size_t fullest_class{};
  HostBytes host;
  SaveCost save;
  Bytes communication;  // sent per rank and step
  CommunicationLevel communication_level{};
  StepTime time;
  double tokens_per_second{};  // of the whole job
  double mfu{};
  std::int64_t global_batch{};  // sequences per optimizer step
  std::int64_t steps_per_epoch{};
  std::optional<Seconds> epoch, total;
  std::optional<double> cost_usd;               // of all epochs, on the GPUs this strategy uses
  std::optional<std::int64_t> max_micro_batch;  // largest that fits, other things equal
  std::optional<std::int64_t> max_seq_len;      // longest, at the recipe's micro batch
  std::int64_t num_gpus_used{};
  Coverage coverage;  // of its products by the profile's measurements
};

struct Recommendation {
  std::string strategy, reason;
  std::vector<std::string> advice;  // what to change when nothing fits, or what would be better
};

struct EstimateResult {
  TrainedModel model;
  FrameworkConvention framework;
  Profile profile;
  std::vector<StrategyEstimate> strategies;               // in the order of strategy_names()
  std::optional<AccuracyRange> memory_range, time_range;  // around process bytes and step time; none for ranks on a CPU
  std::optional<Recommendation> recommended;  // empty strategy name: nothing fits, advice says what to change
  std::vector<std::string> assumptions;
};

/// The profile a request is answered with.
Profile profile_of(const EstimateRequest& request);

/// Evaluates every strategy (or the one asked for). Throws InputError for a recipe that makes no sense.
EstimateResult estimate(const EstimateRequest& request);

/// Memory of one class of ranks of a built program; of a class on different GPUs, that of the tightest one.
struct ClassMemory {
  Peak peak;
  MemoryTiers tiers;
};
ClassMemory class_memory(const EstimateRequest& request, const TrainedModel& model,
                         const FrameworkConvention& framework, const Profile& profile, const StepProgram& program,
                         const RankClass& rank_class);

/// One strategy: program, replay, time. The building block of searches; `program` is reused storage.
StrategyEstimate estimate_strategy(const EstimateRequest& request, const TrainedModel& model,
                                   const FrameworkConvention& framework, const Profile& profile,
                                   const Strategy& strategy, StepProgram& program);

/// The options as they apply to this recipe: FSDP means version 1 where version 2 cannot shard a 4-bit base.
StrategyOptions options_for(const EstimateRequest& request, const FrameworkConvention& framework);

/// Keys and values of every layer in 16 bit: what one token adds to the cache of generation.
Bytes kv_bytes_per_token(const ModelSpec& model);
/// The cache when evaluation generates `eval_generate` tokens after full sequences; no bytes when it does not.
Bytes generation_cache(const EstimateRequest& request, const ModelSpec& model);

/// Checks a recipe against itself and the model. Throws InputError naming the flag.
void validate_recipe(const Recipe& recipe, const ModelSpec& model, const ClusterSpec& cluster);

}  // namespace gpuplan
