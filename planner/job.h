// A question of the planner, and the question resolved for one strategy. What is found by name (framework, profile) and
// what follows from it (dtypes, size rules) is found once, in a Job; planner, simulator and executor read it. A recipe
// that contradicts itself, the model or the cluster is refused here.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/error.h"
#include "base/name_table.h"
#include "cluster/cluster_spec.h"
#include "cluster/profile/profile.h"
#include "models/framework.h"
#include "models/model_spec.h"
#include "models/recipe.h"
#include "models/rollout.h"
#include "models/trained_model.h"
#include "planner/state_sizes.h"
#include "planner/strategy.h"

namespace gpuplan {

enum class Preference : std::uint8_t { Speed, Cost, Memory };
inline constexpr std::array kPreferences{NameRow<Preference>{"speed", Preference::Speed},
                                         NameRow<Preference>{"cost", Preference::Cost},
                                         NameRow<Preference>{"memory", Preference::Memory}};
constexpr NameTable<Preference> names_of(Preference) { return {"preference", kPreferences}; }

/// Names what evaluation leaves on the device: nothing (prediction_loss_only), the logits of the last batch, or those
/// of all.
enum class EvalLogits : std::uint8_t { None, Last, Kept };
inline constexpr std::array kEvalLogits{NameRow<EvalLogits>{"none", EvalLogits::None},
                                        NameRow<EvalLogits>{"last", EvalLogits::Last},
                                        NameRow<EvalLogits>{"kept", EvalLogits::Kept}};
constexpr NameTable<EvalLogits> names_of(EvalLogits) { return {"evaluation logits", kEvalLogits}; }

/// Names what is learnt: all weights in full precision, adapters (or weights in 16 bit alone), adapters on a 4-bit
/// base.
enum class Quality : std::uint8_t { Ok, Good, Best };
inline constexpr std::array kQualities{NameRow<Quality>{"ok", Quality::Ok}, NameRow<Quality>{"good", Quality::Good},
                                       NameRow<Quality>{"best", Quality::Best}};
constexpr NameTable<Quality> names_of(Quality) { return {"quality", kQualities}; }

Quality quality_of(const Recipe& recipe);

/// Settings that nobody gave, by their rows in planner/changes, and what an estimate makes of them.
struct NotGiven {
  std::set<std::string, std::less<>> rows;  // empty: flags, a plan or files of --from gave everything
  bool are_chosen = false;                  // by planner/free_choice; else they are the trainer's defaults
  std::optional<Quality> least_quality;     // of what is chosen; unset: that of the question

  bool contains(std::string_view row) const { return rows.contains(row); }
};

/// Holds what is asked: made by the command line or read from a plan file.
struct EstimateRequest {
  ModelSpec model;
  Recipe recipe;
  Dataset dataset;
  ClusterSpec cluster;
  StrategyOptions options;
  std::string strategy = "auto";  // canonical name or "auto"
  Preference preference = Preference::Speed;
  std::optional<double> price_per_gpu_hour;  // overrides the cluster's
  std::int64_t eval_batch = 0;               // sequences per GPU in evaluation; 0: the micro batch
  EvalLogits eval_logits{};
  std::int64_t eval_generate = 0;          // tokens generated per sequence during evaluation: adds a KV cache
  std::shared_ptr<const Profile> profile;  // null: the shipped one of the first GPU
  NotGiven not_given;
  std::shared_ptr<const ModelSpec> teacher;  // of a method that distils
  std::shared_ptr<const ModelSpec> critic,
      reward_model;  // of a method that has them; null: each is the model once more
  Rollout rollout;   // of a method that generates, or of a question about generation alone
};

/// Tokens that the model reads in all epochs, a prompt with each of its answers; the most that can be counted where
/// they are more.
std::int64_t total_tokens(const EstimateRequest& request);

/// A request under one strategy. `micro_batch`, `seq_len` and `grad_accum` of its recipe may be changed in place; what
/// else changes needs a job of its own.
struct Job {
  /// `model` is the request's under its recipe, `framework` the recipe's.
  Job(EstimateRequest request, TrainedModel model, FrameworkConvention framework, Profile profile, Strategy strategy);
  /// Finds the framework by name, prepares the model, takes the request's profile.
  Job(const EstimateRequest& request, Strategy strategy);

  EstimateRequest request;
  TrainedModel model;  // as a rank holds it
  FrameworkConvention framework;
  Profile profile;
  Strategy strategy;
  DtypePolicy numerics;
  SizeRules rules;

  const Recipe& recipe() const { return request.recipe; }
  /// The model of which ranks that share layers hold parts.
  const TrainedModel& whole() const { return whole_ ? *whole_ : model; }
  const ClusterSpec& cluster() const { return request.cluster; }
  const EngineConvention& engine() const { return engine_of(framework, strategy.engine); }
  /// One process drives all GPUs: it needs no communicators, and one thread launches every kernel.
  bool is_one_process() const {
    return strategy.mesh.world() == 1 ||
           (strategy.schedule == Schedule::Naive && framework.distributed.mp_is_one_process);
  }
  /// The same under another strategy.
  void use(Strategy other);

 private:
  void divide_model();

  std::shared_ptr<const TrainedModel> whole_;  // null: as `model`
  Mesh divided_by_;                            // what made a part of it
};

/// A trainer trains adapters on a checkpoint that was quantised before as it is, unpacks it to 16 bit by itself or
/// because it is told so, or cannot train it; or nobody knows.
enum class CheckpointUse : std::uint8_t { Kept, Unpacked, UnpackedOnRequest, Refused, Unknown };
CheckpointUse use_of_checkpoint(const FrameworkConvention& framework, const CheckpointQuant& checkpoint);

/// Takes the framework as it is for this type of model, with the versions that it has, and the checkpoint as they load
/// it: a base that stays quantised becomes the recipe's. Returns notes for people. Throws InputError for a checkpoint
/// that the trainer refuses.
std::vector<std::string> settle_stack(EstimateRequest& request);

/// The profile a request is answered with.
Profile profile_of(const EstimateRequest& request);

/// The options as they apply to this recipe: FSDP means version 1 where version 2 fails (4-bit base, 8-bit states).
StrategyOptions options_for(const EstimateRequest& request);
/// Ranks that share each expert where nobody says how many.
std::int64_t usual_ways_of_expert(const EstimateRequest& request, std::int64_t tp, std::int64_t ep);

/// Ranks, or groups of ranks, that have sequences of their own under the strategy asked for; of auto, under whole
/// copies.
std::int64_t batch_replicas(const EstimateRequest& request);

/// The strategy that a request pins, with its degrees where the model is divided.
std::string strategy_title(const EstimateRequest& request);

/// Returns the first thing about a recipe that makes no sense, naming the flag.
std::optional<InputError> recipe_mistake(const Recipe& recipe, const ModelSpec& model, const ClusterSpec& cluster);
/// Throws InputError where the method needs a teacher and none is given, or has none.
void check_teacher(const EstimateRequest& request);
/// Throws it.
void validate_recipe(const Recipe& recipe, const ModelSpec& model, const ClusterSpec& cluster);

}  // namespace gpuplan
