// The weights of a mixture of experts as a library keeps them in memory, which is not always as the checkpoint has
// them: transformers 5 makes one parameter of the experts of a layer (src/transformers/conversion_mapping.py @v5.0.0).
#pragma once

#include "models/framework.h"
#include "models/recipe.h"
#include "models/weights.h"

namespace gpuplan {

/// Puts experts and routers into the form that the framework has.
void lay_out_experts(ModelWeights& weights, const FrameworkExperts& experts);

/// One 3-D parameter of all experts.
bool is_stacked_experts(const WeightTensor& tensor);

/// "self_attn.q_proj.weight" -> "q_proj".
std::string module_name(const std::string& tensor);

/// Says whether a target names the module of a tensor: by the end of its path, "q_proj" or "shared_expert.up_proj".
bool names_module(std::string_view target, std::string_view tensor);

/// Stacked experts of the checkpoint as a linear for each of them, gate and up apart; axolotl's option for Llama 4.
/// Source: axolotl src/axolotl/monkeypatch/models/llama4/modeling.py @067b021c. Returns whether there were any.
bool make_experts_linear(ModelWeights& weights);

/// Says whether a target is a parameter of stacked experts, by the end of its path: "mlp.experts.down_proj" of PEFT's
/// target_parameters.
bool names_stacked_parameter(std::string_view target, const WeightTensor& tensor);

/// Modules that "all-linear" names: "q_proj", "in_proj", …, without the head and without what a fused kernel takes.
std::vector<std::string> linear_modules(const ModelWeights& weights);

/// The rank of the adapter of a tensor under the recipe's targets; 0: it gets none. Stacked experts and their router
/// have the rank of one expert. Source: huggingface/peft src/peft/utils/transformers_weight_conversion.py @v0.20.0.
class AdapterRanks {
 public:
  AdapterRanks(const Recipe& recipe, const FrameworkAdapters& adapters, const ModelWeights& laid_out);
  std::int64_t rank_of(const WeightTensor& tensor) const;
  /// Says whether stacked experts get adapters that the release refuses with dropout or DoRA.
  bool refuses_variant() const;

 private:
  std::int64_t rank_of_experts(const WeightTensor& stacked) const;

  const LoraSpec& lora_;
  const FrameworkAdapters& adapters_;
  std::vector<std::string> targets_;
  bool is_all_linear_{}, reaches_parameters_{};
  bool takes_experts_{};  // some of the model's stacked experts get adapters
};

/// Says whether the release of PEFT cannot take the recipe's targets for this model.
bool fails_on_targets(const Recipe& recipe, const FrameworkAdapters& adapters);

}  // namespace gpuplan
