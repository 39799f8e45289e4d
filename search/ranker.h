// Ranks the plans of a part of the space: memory by replay, time by the forward pass, cost by the offers. One ranker
// per thread; its result depends on the part alone.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "planner/block_cache.h"
#include "planner/step_inputs.h"
#include "planner/timed_program.h"
#include "search/space.h"

namespace gpuplan {

/// One plan that fits and meets the limits. A search keeps millions: the small fields stand together.
struct RankedPlan {
  std::uint32_t way{}, machine{};  // into Space::ways, SearchQuestion::machines
  std::uint16_t offer{}, strategy{};
  Fit fit{};
  Quality quality{};
  bool offloads = false, has_price = false;
  bool takes_turns = false;  // its GPUs compute one after the other (mp)
  Batch batch;
  std::int64_t simplicity{};  // lower is simpler: GPUs, then settings out of the usual, then the strategy's place
  Bytes process, usable;
  double chance{};      // that its memory is found
  Seconds step, total;  // of all epochs, restarts of spot machines included
  double cost{};        // US dollars; GPU hours where no price is known

  double headroom() const { return 1 - process / usable; }
  bool operator==(const RankedPlan&) const = default;
};

/// Says why plans were left out, and how many: "does not fit", "over the budget", "zero3: needs at least 2 GPUs, …".
using Rejected = std::map<std::string, std::int64_t>;

/// A plan that memory alone forbids: of a GPU or of the host, whichever lacks more.
struct NearMiss {
  RankedPlan plan;
  Bytes needed, has;
  bool is_of_host = false;
};

struct Ranking {
  std::vector<RankedPlan> plans;
  std::vector<RankedPlan> over_limits;  // that fit, but miss --under or --budget: what would do without them
  Rejected rejected;
  std::int64_t num_plans = 0;       // looked at, those rejected included
  std::int64_t num_built = 0;       // whose program was built
  std::int64_t num_skipped = 0;     // rejected without a look at them alone: a smaller one of the kind did not fit
  std::optional<NearMiss> nearest;  // that needs the smallest multiple of what there is
  /// Keeps the nearer one; of two that are as near, the first in the space.
  void note(const NearMiss& miss);
  void add(Ranking&& other);
};

/// Plans without offload that fit well and leave all the room that is worth something (kUsefulHeadroom): offload makes
/// them slower, dearer and no better, so that it is not looked at.
class RoomyPlans {
 public:
  RoomyPlans() = default;
  explicit RoomyPlans(const std::vector<RankedPlan>& plans);
  bool contains(std::size_t way, std::size_t machine, std::size_t strategy, Batch batch) const;

 private:
  using Place = std::tuple<std::size_t, std::size_t, std::size_t, std::int64_t, std::int64_t>;
  std::vector<Place> places_;  // sorted
};

class Ranker {
 public:
  /// `roomy`: of the ways without offload; nullptr: every plan is looked at.
  explicit Ranker(const Space& space, const RoomyPlans* roomy = nullptr);

  /// Appends the plans of a part of the space.
  void rank(std::size_t part, Ranking& out);

 private:
  struct Bench;
  struct Built;
  void rank_batches(const Space::Part& part, Ranking& out);
  Built& built_for(const Job& job);
  /// The step of the program that is built, without what runs beside it.
  StepTime time_of_built(const Space::Part& part, Bench& bench);
  /// `skipped_rounds`: micro-batches that the program that is built lacks, in rounds of a pipeline's stages.
  void rank_one(const Space::Part& part, Bench& bench, Batch batch, std::int64_t skipped_rounds, Ranking& out);
  RankedPlan plan_of(const Space::Part& part, const Bench& bench, Batch batch, const StrategyEstimate& e) const;
  /// Names what a plan lacks that was just evaluated.
  NearMiss miss_of(const Space::Part& part, const Bench& bench, Batch batch) const;
  void price(const Space::Part& part, const Bench& bench, Batch batch, const StrategyEstimate& e, Seconds step,
             Ranking& out) const;
  Job& job_on(std::size_t machine, std::size_t model);
  /// Of a part's machine; `job` is its job there.
  const CommModel& comm_on(std::size_t machine, std::size_t strategy, const Job& job);

  const Space& space_;
  const RoomyPlans* roomy_;
  /// The program of a step, and that of an average one where lengths differ.
  struct Built {
    StepProgram program, average;
    TimedStep timed;           // what forward passes read of the program that is timed: all machines run the same
    bool is_resolved = false;  // it is that of the batch
  };
  std::array<Built, 3> built_;        // with one micro-batch, two and more, whose instructions differ
  std::vector<Peak> passes_, peaks_;  // of the latest program, and with the engine of a machine
  CommonMemory common_;               // the same
  BlockCache blocks_;
  StrategyEstimate estimate_;
  std::map<std::pair<std::size_t, std::size_t>, Job> jobs_;  // by machine and model
  /// Holds what machines and strategies say of communication, which is the same in many ways of training.
  struct Links {
    Mesh mesh;
    ShardingEngine engine{};
    CommModel comm;
  };
  std::map<std::pair<std::size_t, std::size_t>, Links> links_;  // by machine and strategy
};

/// Says whether a plan leaves GPUs idle that it pays for: those that it does not use, and the stages of a naive
/// pipeline, which take turns. A smaller machine costs less. Not where the user asked for the strategy. On machines of
/// one's own a pipeline of some of the GPUs alone is left out too: data parallel groups of it use them all.
bool idles_gpus(const SearchQuestion& question, const Strategy& strategy, const ClusterSpec& cluster);

/// Says why a plan of a rented machine is rejected that rests on more host memory than such a machine usually has.
inline constexpr std::string_view kTooMuchOnHost = "needs more host memory than such machines usually have";

/// GPUs count most, then settings out of the usual, then the quality, then the place of the strategy in its table.
std::int64_t simplicity_of(const Way& way, const Strategy& strategy, std::int64_t num_gpus);

/// Plan, recipe and strategy as one question of `estimate`.
EstimateRequest request_of(const Space& space, const RankedPlan& plan);

}  // namespace gpuplan
