// InternLM 2 and 2.5 (remote code): Llama's layer under names of its own, q, k and v in one linear.
// Source of names and defaults: configuration_internlm2.py and modeling_internlm2.py of internlm/internlm2-7b.
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read_internlm2(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec, {.num_attention_heads = 32, .vocab_size = 103168});
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.has_qkv_bias = spec.has_o_bias = config.optional_flag("bias").value_or(true);
  spec.has_fused_qkv = true;
}

ModelWeights list_internlm2(const ModelSpec& spec) {
  const std::int64_t hidden = spec.hidden_size, width = spec.intermediate_size;
  Tensors layer;
  add_linear(layer, LinearSlot::Qkv, "attention.wqkv", hidden, spec.q_width() + 2 * spec.kv_width(), spec.has_qkv_bias);
  add_linear(layer, LinearSlot::O, "attention.wo", spec.q_width(), hidden, spec.has_o_bias);
  add_linear(layer, LinearSlot::Gate, "feed_forward.w1", hidden, width);
  add_linear(layer, LinearSlot::Up, "feed_forward.w3", hidden, width);
  add_linear(layer, LinearSlot::Down, "feed_forward.w2", width, hidden);
  add_norm(layer, "attention_norm", hidden);
  add_norm(layer, "ffn_norm", hidden);
  ModelWeights weights;
  add_layers(weights, spec, "model.layers.{}.", std::move(layer));
  add_embedding(weights, spec, "model.tok_embeddings");
  add_norm_of(weights.after, spec, "model.norm");
  add_head(weights, spec, "output");
  return weights;
}

}  // namespace

constinit const Family kInternLm2{.name = "internlm2",
                                  .model_type = "internlm2",
                                  .architecture = "InternLM2ForCausalLM",
                                  .read = read_internlm2,
                                  .list = list_internlm2};

}  // namespace gpuplan
