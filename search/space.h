// The question of `gpuplan plan` and everything that could answer it: ways to train (method and the knobs of
// planner/changes) x machines x strategies x batches. What the user gave is pinned; what is not given is free.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/changes.h"
#include "search/offers.h"

namespace gpuplan {

struct SearchQuestion {
  EstimateRequest base;            // what is given, and defaults; its cluster is not read
  std::vector<Hardware> machines;  // to choose from
  bool is_rented = false;          // every GPU of a machine is paid for; else only those that a plan uses
  std::vector<Method> methods{Method::Full, Method::Lora};  // to choose from; one: that of `base`, with its adapters
  Quality least_quality = Quality::Ok;
  std::set<std::string> pinned;  // rows of planner/changes that the user set, and "micro-batch", "grad-accum",
                                 // "strategy", and of kSearchedDegrees
  std::optional<std::int64_t> global_batch;  // sequences per optimizer step; unset: about kUsualGlobalBatch
  std::optional<Seconds> under;              // for the whole training
  std::optional<double> budget;              // US dollars
  Preference preference = Preference::Speed;
  bool is_fast_by_budget = false;  // speed is preferred as a budget alone is given, not by a flag
  bool takes_fewest_gpus = false;  // before anything else
  Seconds overhead;                // set-up, download and failed starts, for which the machine is paid too
};

/// Where no --global-batch is given. Fine-tuning recipes of the field use 16 to 128: QLoRA 16 (Dettmers et al. 2023),
/// LIMA 64 (Zhou et al. 2023), Alpaca and Zephyr 128.
inline constexpr std::int64_t kUsualGlobalBatch = 64;

/// The global batch of one rank where none was asked for: its share of the usual one, a power of two times the least
/// with which the ranks together have whole prompts of so many answers.
std::int64_t usual_share(std::int64_t data_parallel, std::int64_t answers);

/// Everything of a recipe but its batch.
struct Way {
  std::vector<Setting> settings;  // that turn the question into it
  std::string flags;              // the same as flags to paste, those left out that change nothing
  Recipe recipe;
  EngineChoice engine;  // that writes answers, of a method that has some
  std::size_t model{};  // into Space::models
  Quality quality{};
  int num_special = 0;                         // settings that are not what one would try first
  std::optional<std::size_t> without_offload;  // of a way that offloads: the same one that does not
};

/// Gives the engine of a way on a machine: its own GPUs are those that the machine has for it.
EngineChoice engine_on(const Way& way, const Hardware& machine);

/// Micro batch and micro-batches per step of one data-parallel rank.
struct Batch {
  std::int64_t micro{}, accum{};
  bool operator==(const Batch&) const = default;
};

/// Machines on which a strategy has the same step program: as many GPUs that train on as many nodes.
struct MachineClass {
  std::int64_t num_gpus{}, num_nodes{};
  std::vector<std::size_t> machines;  // into SearchQuestion::machines
};

/// The degrees of a mesh that a search tries by itself, as flags spell them.
inline constexpr std::array<std::string_view, 5> kSearchedDegrees{"tp", "cp", "ep", "etp", "pp"};

/// A strategy, by how many ranks each layer, each sequence and the experts are shared under it, and in how many stages
/// layers lie.
struct SearchedStrategy {
  std::string_view name;
  std::int64_t tp = 1;
  bool splits_sequence = false;
  std::int64_t cp = 1, ep = 1, etp = 1, pp = 1, virtual_stages = 1;
  std::int64_t fewer_chunks = 0;  // virtual stages of the same mesh that are looked at too; 0: it has the fewest

  void set(StrategyOptions& options) const {
    options.tp = tp, options.splits_sequence = splits_sequence, options.cp = cp;
    options.ep = ep, options.etp = etp, options.pp = pp, options.virtual_stages = virtual_stages;
  }
  bool has_mesh_of(const SearchedStrategy& other) const {
    return tp == other.tp && splits_sequence == other.splits_sequence && cp == other.cp && ep == other.ep &&
           etp == other.etp && pp == other.pp && virtual_stages == other.virtual_stages;
  }
  /// "--strategy zero1 --tp 4 --sp --pp 2"
  std::string flags() const;
};

/// Holds what is searched, part by part: Way x MachineClass x strategy. Within a part, batches rise.
struct Space {
  explicit Space(const SearchQuestion& question);

  const SearchQuestion& question;
  const FrameworkConvention& framework;
  std::vector<TrainedModel> models;  // one per method
  std::vector<Way> ways;
  std::vector<MachineClass> classes;
  std::vector<SearchedStrategy> strategies;

  /// Ways that have the same blocks but for their dtypes: they differ in precision, optimizer and offload alone. They
  /// are looked at one after the other, first those of which an engine may make the same.
  std::vector<std::vector<std::size_t>> kin;

  std::size_t parts_of_way() const { return classes.size() * strategies.size(); }
  std::size_t num_parts() const { return ways.size() * parts_of_way(); }
  struct Part {
    const Way& way;
    const MachineClass& machines;
    const SearchedStrategy& strategy;
    std::size_t way_index, strategy_index;
  };
  Part part(std::size_t index) const;

  /// The batches that add up to the global batch over so many data-parallel ranks, the smallest micro batch first;
  /// empty where none does. Chunks of layers are for batches in which the stages would idle with fewer of them.
  std::vector<Batch> batches(std::int64_t data_parallel, const SearchedStrategy& strategy) const;

  /// Says whether the way is for such GPUs: fp16 is for those without bf16, unless the user asked for a precision.
  bool suits(const Way& way, const Hardware& machine) const;

  /// Says why the recipe makes no sense on this machine ("flash-attention 2 needs …"); empty when it does.
  std::string why_not(const Way& way, const Hardware& machine) const;

 private:
  std::vector<Batch> all_batches(std::int64_t data_parallel) const;
};

}  // namespace gpuplan
