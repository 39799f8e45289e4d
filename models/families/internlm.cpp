// InternLM (the first generation, remote code): Llama with biases on q, k, v and o.
// Source of names and defaults: configuration_internlm.py of internlm/internlm-7b.
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec, {.num_attention_heads = 32, .vocab_size = 103168});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("bias").value_or(true);
}

void write(const ModelSpec& spec, nlohmann::json& config) {
  write_decoder(spec, config);
  config["hidden_act"] = hf_activation(spec.activation);
  config["bias"] = spec.has_qkv_bias;
}

}  // namespace

constinit const Family kInternLm{.name = "internlm",
                                 .model_type = "internlm",
                                 .architecture = "InternLMForCausalLM",
                                 .read = read,
                                 .write = write,
                                 .list = pre_norm_weights};

}  // namespace gpuplan
