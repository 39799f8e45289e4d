// gpuplan export: a plan as the files that other programs train by. What is written is read back by
// ecosystem/config_reader before it is given out, so that a file which would train something else never leaves.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ecosystem/emit.h"
#include "ecosystem/training_data.h"
#include "ecosystem/versions.h"
#include "planner/estimate.h"
#include "planner/plan/carried.h"

namespace gpuplan {

/// Files, or why there are none.
struct ExportAnswer {
  std::vector<ExportedFile> files;
  std::vector<std::string> notes;
  std::string refusal, nearest;            // "… [R01]", and what works
  std::optional<EstimateRequest> instead;  // of a refusal: a plan that is nearer to what the target can train
  bool is_refused() const { return !refusal.empty(); }
};

/// Where the files will be, and what a scheduler's job trains with.
struct ExportPlaces {
  std::string folder;  // absolute: names of files in files have it before them; empty: they stand together
  std::vector<std::string> program;              // with its arguments; empty: TRL's SFT, or the script of plain PyTorch
  std::map<std::size_t, std::string> variables;  // words of `program` that stand in a variable of the environment
  TrainingData data{};                           // that trainers' files name
  std::shared_ptr<const CarriedSettings> carried{};  // that the plan keeps of a trainer's file; null: none
  bool has_script = false;                           // what is started is there, and checkpoints activations itself
};

/// The names of --for.
std::vector<std::string> export_targets();

/// "gpuplan export plan.json --for trl writes files that train it", where it does; else which files gpuplan has not.
/// The target is the plan's framework where it is one, else accelerate. Requires: request.strategy names one strategy.
std::string export_hint(const std::string& plan_file, const EstimateRequest& request);

/// `versions`: of the programs that will read the files; an FSDP2 plan becomes one of FSDP1 where they have no other.
/// Requires: request.strategy names one strategy. Throws InputError for an unknown target.
ExportAnswer export_plan(const EstimateRequest& request, std::string_view target, const PlanMark& mark,
                         const Versions& versions = {}, const ExportPlaces& places = {});

}  // namespace gpuplan
