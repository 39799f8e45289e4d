// Baichuan 1 and 2 (remote code): Llama with q, k and v in one linear. 7B rotates; 13B uses ALiBi and writes its scores
// out. The two are told apart as their configs differ: 13B states model_max_length in place of max_position_embeddings.
// Logits stay in 16 bit. Source of names and defaults: configuration_baichuan.py and modeling_baichuan.py of
// baichuan-inc/Baichuan2-{7,13}B-Base.
#include "models/families/decoder.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

void read_baichuan(Fields& config, ModelSpec& spec) {
  const bool has_alibi = config.find("model_max_length") && !config.find("max_position_embeddings");
  read_decoder(config, spec, {.max_position_embeddings = 4096});
  if (has_alibi) spec.max_position_embeddings = config.integer("model_max_length", kPositionRange);
  spec.activation = read_activation(config, "hidden_act", "silu");
  spec.position = has_alibi ? PositionKind::Alibi : PositionKind::Rope;
  spec.materialises_scores = has_alibi;
  spec.keeps_16bit_logits = spec.has_fused_qkv = true;
  if (spec.num_key_value_heads != spec.num_attention_heads)
    config.report("num_key_value_heads", "Baichuan has as many key-value heads as attention heads");
}

ModelWeights list_baichuan(const ModelSpec& spec) {
  Tensors layer;
  add_linear(layer, LinearSlot::Qkv, "self_attn.W_pack", spec.hidden_size, 3 * spec.q_width());
  add_linear(layer, LinearSlot::O, "self_attn.o_proj", spec.q_width(), spec.hidden_size);
  add_gated_mlp(layer, spec);
  add_norm_of(layer, spec, "input_layernorm");
  add_norm_of(layer, spec, "post_attention_layernorm");
  return decoder_weights(spec, std::move(layer));
}

}  // namespace

constinit const Family kBaichuan{.name = "baichuan",
                                 .model_type = "baichuan",
                                 .architecture = "BaichuanForCausalLM",
                                 .other_architecture = "BaiChuanForCausalLM",
                                 .read = read_baichuan,
                                 .list = list_baichuan};

}  // namespace gpuplan
