// The weight tensors of a model, named as in its Hugging Face checkpoint. One list serves parameter counts,
// sharding, quantisation, adapters, safetensors checks and the executor's loader.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/model_spec.h"

namespace gpuplan {

/// What a tensor is for; decides whether it is quantised, adapted, or decayed.
enum class WeightRole : std::uint8_t { Embedding, Position, Norm, Linear, Bias, Head };

/// One tensor of the checkpoint. `name` is relative to its unit: "self_attn.q_proj.weight", "model.embed_tokens.weight".
struct WeightTensor {
  std::string name;
  std::vector<std::int64_t> shape;   // as stored: a Linear is [out, in], GPT-2's Conv1D is [in, out]
  WeightRole role{};
  std::int64_t in{}, out{};          // features of a Linear or Head (0 otherwise)
  std::int64_t elements() const;
};

/// All tensors of a model. Layers are alike, so one layer is listed; tied heads appear once, as the embedding.
struct ModelWeights {
  std::vector<WeightTensor> before;   // embedding (and learned positions)
  std::vector<WeightTensor> layer;    // one decoder layer, without its prefix
  std::vector<WeightTensor> after;    // final norm, and the head when it is not tied
  std::string layer_prefix;           // "model.layers.{}."
  std::int64_t num_layers{};

  std::int64_t layer_elements() const;
  std::int64_t before_elements() const;
  std::int64_t after_elements() const;
  /// Exact parameter count of the model.
  std::int64_t total_elements() const { return before_elements() + num_layers * layer_elements() + after_elements(); }
};

/// Lists the tensors of `model`. Throws InputError when its family is not modelled yet.
ModelWeights list_weights(const ModelSpec& model);

}  // namespace gpuplan
