// A plan as the native executor sees it: the step program that was estimated and simulated, and where each tensor lies
// in it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/narrow.h"
#include "models/model_spec.h"
#include "models/numerics.h"
#include "models/recipe.h"
#include "planner/job.h"
#include "planner/layer_parts.h"
#include "planner/program_builder.h"
#include "planner/strategy.h"

namespace gpuplan {

class NativeJob;

/// A pass without gradients, which a step runs before that with gradients (planner/phases.h).
struct NativePass {
  std::string name;  // "log-probs of the reference"
  std::unique_ptr<const NativeJob> job;
  bool has_own_weights{};  // its model stays beside the one that is trained; false: it is that one, as it is frozen
};

/// Made from a request with its strategy decided, under the executor's own framework record; the same on every rank.
class NativeJob : public Job {
 public:
  /// Throws InputError for what the executor lacks (require_native).
  NativeJob(const EstimateRequest& request, const Strategy& strategy);
  NativeJob(const NativeJob&) = delete;
  NativeJob& operator=(const NativeJob&) = delete;

  const StepProgram& program() const { return program_; }
  const std::vector<NativePass>& passes() const { return passes_; }
  /// Losses compare answers to the same prompt (run/answers_loss.h).
  bool compares_answers() const { return !recipe().objective.method.is_usual(); }
  /// How ranks share each layer's tensors.
  LayerParts parts() const { return layer_parts(strategy.mesh); }
  std::uint16_t head_unit() const { return narrow<std::uint16_t>(model.num_layers() + 1); }

  /// The weights of a unit (0 embedding, 1 + layer, head), whole; the layout of what a rank has of them, and their full
  /// names in the checkpoint.
  const std::vector<WeightTensor>& weights_of(std::uint16_t unit) const;
  const UnitLayout& layout_of(std::uint16_t unit) const { return layouts_[unit]; }
  std::string tensor_name(std::uint16_t unit, std::uint16_t tensor) const;
  TrainedDtypes dtypes_of(std::uint16_t unit) const {
    return trained_dtypes(layouts_[unit], numerics, recipe(), rules);
  }
  const LayerLinears* linears_of(std::uint16_t unit) const;  // null of the ends
  /// Place of the head's matrix: in the head; tied, in the embedding, or in the head of a pipeline's last stage.
  struct Place {
    std::uint16_t unit = 0, tensor = 0;
  };
  Place head_matrix() const { return head_matrix_; }

 private:
  explicit NativeJob(Job job);
  StateList head_state();
  void make_passes();
  ModelWeights weights_;
  std::vector<WeightTensor> head_weights_;
  Place head_matrix_;
  StepProgram program_;
  std::vector<UnitLayout> layouts_;
  std::vector<NativePass> passes_;
};

/// A rank's place in the mesh: which stage, which part of each layer, which part of the batch, which copy of the state,
/// which part of that.
struct RankPlace {
  std::int64_t rank{}, stage{}, layer_part{}, batch{}, copy{}, shard{};
  /// One rank of those that have the same tokens.
  bool counts_tokens() const { return stage == 0 && layer_part == 0; }
};
RankPlace place_of(std::int64_t rank, const Mesh& mesh);

/// Throws InputError saying what the native executor lacks and which engine has it: families that are no Llama-like
/// decoders, kernels, optimizers, offload to NVMe, dropout, DoRA, …
void require_native(const ModelSpec& model, const Recipe& recipe, const Strategy& strategy,
                    const DtypePolicy& numerics);

}  // namespace gpuplan
