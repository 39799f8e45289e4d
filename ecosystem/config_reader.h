// gpuplan estimate --from: configuration files of other programs as a question of the planner. A file's kind is
// recognised by its keys; every key is used, ignored with a reason, or refused.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ecosystem/given_files.h"
#include "ecosystem/key_table.h"
#include "ecosystem/launcher.h"
#include "ecosystem/out_of_memory.h"
#include "models/stack.h"
#include "planner/estimate.h"
#include "planner/plan/carried.h"

namespace gpuplan {

/// One program's settings among the files: where each fact is stated, so that it can be stated otherwise.
struct SettingsPart {
  const KeyTable* table = nullptr;
  std::string file;                            // whose keys they are; empty: flags alone
  std::map<std::string, std::string> keys_of;  // fact: the key that states it, unless it says "auto"
  std::string script;                          // that has `flags`; empty: none
  std::vector<LaunchFlag> flags;               // which stand over the keys of `file`
};

/// Holds what the files say together.
struct ConfigReading {
  EstimateRequest request;  // without model and cluster
  Setup setup;
  std::optional<std::string> model;  // as a --model would spell it
  std::string model_config;          // of a model whose sizes a file states: a config.json; empty: it names one
  bool has_trainer = false;          // recipe and method are complete; else only what launcher or engine say is set
  bool has_files = false;            // there are settings: something else than a log or a plan
  bool has_method = false;           // a file says whether adapters are trained
  std::string open_method;           // the flag of an unknown script that says so in its own words; empty: none
  Setup::Count step_rows;            // of an optimizer step on all ranks, where a file says them and no passes
  std::int64_t filled_rows = 0;      // of a micro batch that is filled up to a number of tokens; 0: it is of rows
  bool mends_micro_batch = false;    // one that does not divide `step_rows` gives way, and is not refused
  std::string why_mended;            // what the files say that the trainer refuses, and `setup` has otherwise
  std::vector<std::string> mended;   // the facts that `setup` has otherwise
  std::string trainer;               // title of the trainer's format
  std::string file;                  // of the trainer, else the first
  std::int64_t warmup_steps = 0;     // of the learning rate, as the trainer's file says them
  std::string folder;                // in which a script runs the trainer; empty: the current one
  std::optional<OutOfMemory> out_of_memory;        // of a log among the files
  std::optional<ConfigFile> plan;                  // a plan of gpuplan among them; then at most a log is beside it
  std::shared_ptr<const CarriedSettings> carried;  // what a plan keeps of the trainer's file; null: nothing
  std::vector<std::string> notes;
  std::string stands_in;       // of the notes, how to come by a file that is not there; empty: all are, or nobody knows
  std::string older_defaults;  // of the notes, what older releases do where the files say nothing; empty: the same
  std::vector<std::string> mistyped;  // keys that are not known, and those that look like them
  std::vector<SettingsPart> parts;

  /// Says whether a key of a file, or a flag of a script, states the fact.
  bool states(const std::string& fact) const {
    return std::ranges::any_of(parts, [&](const SettingsPart& part) { return part.keys_of.contains(fact); });
  }
};

enum class Broken : std::uint8_t { Refused, Mended };

/// A fact of a training on answers that a flag says beside the files, in whose place it counts.
struct FlagFact {
  std::string_view fact;  // of Setup
  std::int64_t value = 0;
  std::string_view flag;
};

/// Throws InputError for a file of no known kind, two files of one role, a plan beside other settings, an unknown or
/// refused key, values that contradict each other, and a combination that a rule forbids.
/// `broken`: what becomes of combinations that the program refuses and that one fact mends.
/// `versions` are those of libraries that are not the newest.
/// `objective`: the row of data/methods.yaml that is said beside the files; empty: none is.
/// `beside`: what is said beside the files, which scripts ask for, and where a file leaves a value open.
ConfigReading read_configs(const std::vector<ConfigFile>& files, const FindConfig& find,
                           const StackVersions& versions = {}, const std::string& objective = {},
                           const std::vector<FlagFact>& flags = {}, Broken broken = Broken::Refused,
                           const SaidBeside& beside = {});

/// Once the steps are known: what few of them mean for the training, and the keys that change it; empty: they are
/// enough, or the files ask for so many.
std::string few_steps_note(const ConfigReading& reading, std::int64_t steps);

/// Once the model is known: whether the program divides its attention in groups, where the files ask for it.
void settle_attention(const ConfigReading& reading, EstimateRequest& request, std::vector<std::string>& notes);

/// Once the model is known: whether its head is what the files keep of it.
void settle_head(const ConfigReading& reading, const EstimateRequest& request);

/// Once the model is known: what the files train beside the language model of one with a vision tower.
void settle_vision(const ConfigReading& reading, EstimateRequest& request);

/// Once the model is known: positions that the files give it in place of its own.
void settle_positions(const ConfigReading& reading, EstimateRequest& request);

/// Once the strategy is known: the passes of an optimizer step, where the files say the batch of all ranks, which stays
/// the same on any number of GPUs. Requires: request is the reading's, with cluster. Throws InputError where the ranks
/// do not divide it.
void settle_passes(const ConfigReading& reading, EstimateRequest& request, std::vector<std::string>& notes);

/// Once the model is known: how many ranks share each expert, where the files leave it to those that share each layer.
void settle_experts(const ConfigReading& reading, EstimateRequest& request);

/// Once the cluster is known: the strategy that the files mean on so many GPUs, and what does not go with them.
/// Requires: request is the reading's, with cluster.
void settle_strategy(const ConfigReading& reading, EstimateRequest& request, std::vector<std::string>& notes);

}  // namespace gpuplan
