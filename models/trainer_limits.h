// Limits of trainers (data/trainer_limits.yaml), by their code: bases, optimizers, precisions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/recipe.h"

namespace gpuplan {

struct TrainerLimits {
  std::string framework, source;
  std::optional<std::vector<BaseQuant>> bases;  // beside 16 bit; unset: all
  std::vector<std::string> optimizers;          // names of models/optimizers.h; empty: all
  std::vector<Precision> precisions;            // empty: all
  bool compiles = true;                         // it can put a model through torch.compile
  std::vector<std::string> packs;               // methods whose rows are packed; empty: all
  bool one_vocabulary = false;                  // distillation: teacher and student have as many tokens
  bool moves_reference = true;                  // a copy as reference may wait on the host between its passes
  bool copies_reference = false;                // it is a model of its own beside adapters too
  bool shares_answers_evenly = false;           // it stops where ranks do not divide the answers of a generation
};

/// The row of a trainer; without one it has everything.
const TrainerLimits& limits_of(std::string_view framework);

/// A setting of a recipe that its trainer does not have.
struct BeyondLimits {
  std::string flag, why, hint;
};
/// `has_own_base`: the checkpoint is quantised already.
std::optional<BeyondLimits> beyond_limits(const Recipe& recipe, bool has_own_base);

}  // namespace gpuplan
