// Which dtype every part of the state and of the computation has, once recipe, framework and sharding engine are known.
#pragma once

#include "models/framework.h"
#include "models/model_spec.h"
#include "models/recipe.h"

namespace gpuplan {

/// Source of the rules: docs/memory_model.md.
struct DtypePolicy {
  Dtype compute{};   // matmul operands
  Dtype hidden{};    // outputs of linears
  Dtype residual{};  // residual stream, what a checkpoint boundary stores
  Dtype weight{};    // trainable weights of full fine-tuning, as stored
  Dtype frozen{};    // frozen linears that are not quantised
  Dtype ends{};      // norms, embedding, head when frozen
  Dtype adapter{};   // adapters, as stored
  Dtype saved{};     // modules_to_save: copies keep the base's dtype (peft casts adapters only)
  Dtype adapter_compute{};
  Dtype gather{};             // dtype of gathered trainable weights
  Dtype reduce{};             // dtype in which gradients are reduced
  Dtype logits{};             // of the model's output as the trainer gets it
  bool has_fp32_gradients{};  // kept gradients are fp32 although the weights are 16-bit
  bool is_autocast{};
  bool casts_weights{};   // trainable weights are cast to `compute` before use
  bool caches_casts{};    // … and the cast lives until backward
  bool casts_frozen{};    // frozen fp32 weights are gathered in `gather`, so that compute sees 16 bits
  bool casts_adapters{};  // adapters are cast to `compute` where they are used
  bool has_master{};      // fp32 copy beside 16-bit trainable weights
  bool operator==(const DtypePolicy&) const = default;
};

/// Answers without `model` as for one whose norms return the dtype of their input (RMSNorm).
DtypePolicy resolve_numerics(const Recipe& recipe, const FrameworkConvention& framework, ShardingEngine engine,
                             const ModelSpec* model = nullptr);

}  // namespace gpuplan
