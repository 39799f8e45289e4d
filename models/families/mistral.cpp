// Mistral 7B, Nemo, Small: Llama's tensors; the first release attends within a window in every layer.
// Source of defaults: transformers MistralConfig (a window of 4096 unless the config says null).
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kDefaultWindow = 4096;

void read(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec, {.num_key_value_heads = 8, .max_position_embeddings = 4096 * 32});
  spec.activation = read_activation(config, "hidden_act", "silu");
  const auto stated = config.optional_integer("sliding_window", kPositionRange);
  spec.sliding_window = stated.value_or(config.has("sliding_window") ? 0 : kDefaultWindow);
  read_sliding_layers(config, spec, spec.num_hidden_layers);
}

void write(const ModelSpec& spec, nlohmann::json& config) {
  write_decoder(spec, config);
  config["hidden_act"] = hf_activation(spec.activation);
  config["sliding_window"] = nullptr;
  if (spec.sliding_window > 0) config["sliding_window"] = spec.sliding_window;
  if (spec.sliding_window > 0 && spec.sliding_layers != spec.num_hidden_layers) write_layer_types(spec, config);
}

}  // namespace

constinit const Family kMistral{.name = "mistral",
                                .model_type = "mistral",
                                .architecture = "MistralForCausalLM",
                                .is_executable = true,
                                .read = read,
                                .write = write,
                                .list = pre_norm_weights};

}  // namespace gpuplan
