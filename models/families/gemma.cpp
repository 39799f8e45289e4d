// Gemma 1: Llama's tensors with a tied head, heads of 256 and norms that scale by 1 + weight.
// Source of defaults: transformers GemmaConfig. Its `hidden_act` is ignored there too: the early files say "gelu" and
// mean the tanh form, so only `hidden_activation` counts.
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read(Fields& config, ModelSpec& spec) {
  read_decoder(
      config, spec,
      {.num_key_value_heads = 16, .head_dim = 256, .max_position_embeddings = 8192, .tie_word_embeddings = true});
  spec.norm = NormKind::GemmaRmsNorm;
  spec.scales_embedding = true;
  spec.activation = read_activation(config, "hidden_activation", "gelu_pytorch_tanh");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("attention_bias").value_or(false);
}

void write(const ModelSpec& spec, nlohmann::json& config) {
  write_decoder(spec, config);
  config["hidden_activation"] = hf_activation(spec.activation);
  config["attention_bias"] = spec.has_qkv_bias;
}

}  // namespace

constinit const Family kGemma{.name = "gemma",
                              .model_type = "gemma",
                              .architecture = "GemmaForCausalLM",
                              .read = read,
                              .write = write,
                              .list = pre_norm_weights};

}  // namespace gpuplan
