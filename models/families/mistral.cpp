// Mistral and Mixtral.
#include "models/families/decoder.h"
#include "models/families/experts.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

// Mistral 7B, Nemo, Small: Llama's tensors; the first release attends within a window in every layer. Small 3.1 and
// later are published inside a multimodal model.
// Source of defaults: transformers MistralConfig (a window of 4096 unless the config says null).

constexpr std::int64_t kMistralWindow = 4096;

void read_mistral(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec, {.num_key_value_heads = 8, .max_position_embeddings = 4096 * 32});
  spec.activation = read_activation(config, "hidden_act", "silu");
  const auto stated = config.optional_integer("sliding_window", kPositionRange);
  spec.sliding_window = stated.value_or(config.has("sliding_window") ? 0 : kMistralWindow);
  read_sliding_layers(config, spec, spec.num_hidden_layers);
}

// Mixtral: Mistral's attention, every MLP a mixture of experts.
// Source of names and defaults: transformers MixtralConfig, modeling_mixtral.py (the hub's checkpoints keep one tensor
// per expert).

void read_mixtral(Fields& config, ModelSpec& spec) {
  read_decoder(
      config, spec,
      {.num_attention_heads = 32, .num_key_value_heads = 8, .vocab_size = 32000, .max_position_embeddings = 4096 * 32});
  read_experts(config, spec, "num_local_experts", "intermediate_size",
               {.num_experts = 8, .experts_per_token = 2, .intermediate_size = {}});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.sliding_window = config.optional_integer("sliding_window", kPositionRange).value_or(0);
  read_sliding_layers(config, spec, spec.num_hidden_layers);
}

ModelWeights list_mixtral(const ModelSpec& spec) {
  return pre_norm_moe_weights(spec, "block_sparse_moe", {.gate = "w1", .up = "w3", .down = "w2"});
}

}  // namespace

constinit const Family kMistral{.name = "mistral",
                                .model_type = "mistral",
                                .architecture = "MistralForCausalLM",
                                .wrapper_type = "mistral3",
                                .wrapper_architecture = "Mistral3ForConditionalGeneration",
                                .is_executable = true,
                                .read = read_mistral,
                                .list = pre_norm_weights};
constinit const Family kMixtral{.name = "mixtral",
                                .model_type = "mixtral",
                                .architecture = "MixtralForCausalLM",
                                .read = read_mixtral,
                                .list = list_mixtral};

}  // namespace gpuplan
