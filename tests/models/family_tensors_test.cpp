// One layer of each family, tensor by tensor, as the checkpoints on the hub name and shape them.
// Source: model.safetensors.index.json and config.json of the hub models, or modeling_*.py where there are no
// safetensors.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/catalogue.h"
#include "models/weights.h"

using namespace gpuplan;

namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::vector<WeightTensor>& tensors) {
  Lines lines;
  for (const WeightTensor& tensor : tensors) {
    const std::string copies = tensor.copies > 1 ? fmt::format("{} x ", tensor.copies) : "";
    lines.push_back(fmt::format("{} {}[{}]", tensor.name, copies, fmt::join(tensor.shape, ", ")));
  }
  return lines;
}

struct Listed {
  const char* model;
  std::size_t kind;  // of layer
  const char* prefix;
  Lines tensors;
};

}  // namespace

TEST_CASE("one layer of each family has the tensors of the checkpoint") {
  const std::vector<Listed> listed{
      {"glm-4-9b-0414",
       0,
       "model.layers.{}.",  // 32 heads of 128, 2 for keys and values
       {"self_attn.q_proj.weight [4096, 4096]", "self_attn.q_proj.bias [4096]", "self_attn.k_proj.weight [256, 4096]",
        "self_attn.k_proj.bias [256]", "self_attn.v_proj.weight [256, 4096]", "self_attn.v_proj.bias [256]",
        "self_attn.o_proj.weight [4096, 4096]", "mlp.gate_up_proj.weight [27392, 4096]",
        "mlp.down_proj.weight [4096, 13696]", "input_layernorm.weight [4096]", "post_attention_layernorm.weight [4096]",
        "post_self_attn_layernorm.weight [4096]", "post_mlp_layernorm.weight [4096]"}},
      {"glm-4.5",
       1,
       "model.layers.{}.",  // 96 heads of 128 on a width of 5120, and a norm per head
       {"self_attn.q_proj.weight [12288, 5120]", "self_attn.q_proj.bias [12288]",
        "self_attn.k_proj.weight [1024, 5120]", "self_attn.k_proj.bias [1024]", "self_attn.v_proj.weight [1024, 5120]",
        "self_attn.v_proj.bias [1024]", "self_attn.o_proj.weight [5120, 12288]", "self_attn.q_norm.weight [128]",
        "self_attn.k_norm.weight [128]", "input_layernorm.weight [5120]", "post_attention_layernorm.weight [5120]",
        "mlp.gate.weight [160, 5120]", "mlp.gate.e_score_correction_bias [160]",
        "mlp.experts.{}.gate_proj.weight 160 x [1536, 5120]", "mlp.experts.{}.up_proj.weight 160 x [1536, 5120]",
        "mlp.experts.{}.down_proj.weight 160 x [5120, 1536]", "mlp.shared_experts.gate_proj.weight [1536, 5120]",
        "mlp.shared_experts.up_proj.weight [1536, 5120]", "mlp.shared_experts.down_proj.weight [5120, 1536]"}},
      {"minimax-m2",
       0,
       "model.layers.{}.",  // norms over all heads: 48 and 8 of 128
       {"self_attn.q_proj.weight [6144, 3072]", "self_attn.k_proj.weight [1024, 3072]",
        "self_attn.v_proj.weight [1024, 3072]", "self_attn.o_proj.weight [3072, 6144]",
        "self_attn.q_norm.weight [6144]", "self_attn.k_norm.weight [1024]", "input_layernorm.weight [3072]",
        "post_attention_layernorm.weight [3072]", "block_sparse_moe.gate.weight [256, 3072]",
        "block_sparse_moe.e_score_correction_bias [256]", "block_sparse_moe.experts.{}.w1.weight 256 x [1536, 3072]",
        "block_sparse_moe.experts.{}.w3.weight 256 x [1536, 3072]",
        "block_sparse_moe.experts.{}.w2.weight 256 x [3072, 1536]"}},
      {"ernie-4.5-21b-a3b",
       1,
       "model.layers.{}.",
       {"self_attn.q_proj.weight [2560, 2560]", "self_attn.k_proj.weight [512, 2560]",
        "self_attn.v_proj.weight [512, 2560]", "self_attn.o_proj.weight [2560, 2560]", "input_layernorm.weight [2560]",
        "post_attention_layernorm.weight [2560]", "mlp.gate.weight [64, 2560]",
        "mlp.moe_statics.e_score_correction_bias [1, 64]", "mlp.experts.{}.gate_proj.weight 64 x [1536, 2560]",
        "mlp.experts.{}.up_proj.weight 64 x [1536, 2560]", "mlp.experts.{}.down_proj.weight 64 x [2560, 1536]",
        "mlp.shared_experts.gate_proj.weight [3072, 2560]", "mlp.shared_experts.up_proj.weight [3072, 2560]",
        "mlp.shared_experts.down_proj.weight [2560, 3072]"}},
      {"internlm2.5-7b",
       0,
       "model.layers.{}.",  // 32 + 2 * 8 heads of 128
       {"attention.wqkv.weight [6144, 4096]", "attention.wo.weight [4096, 4096]",
        "feed_forward.w1.weight [14336, 4096]", "feed_forward.w3.weight [14336, 4096]",
        "feed_forward.w2.weight [4096, 14336]", "attention_norm.weight [4096]", "ffn_norm.weight [4096]"}},
      {"hunyuan-7b",
       0,
       "model.layers.{}.",
       {"self_attn.q_proj.weight [4096, 4096]", "self_attn.k_proj.weight [1024, 4096]",
        "self_attn.v_proj.weight [1024, 4096]", "self_attn.o_proj.weight [4096, 4096]",
        "self_attn.query_layernorm.weight [128]", "self_attn.key_layernorm.weight [128]",
        "mlp.gate_proj.weight [14336, 4096]", "mlp.up_proj.weight [14336, 4096]", "mlp.down_proj.weight [4096, 14336]",
        "input_layernorm.weight [4096]", "post_attention_layernorm.weight [4096]"}},
      {"phi-2",
       0,
       "model.layers.{}.",
       {"self_attn.q_proj.weight [2560, 2560]", "self_attn.q_proj.bias [2560]", "self_attn.k_proj.weight [2560, 2560]",
        "self_attn.k_proj.bias [2560]", "self_attn.v_proj.weight [2560, 2560]", "self_attn.v_proj.bias [2560]",
        "self_attn.dense.weight [2560, 2560]", "self_attn.dense.bias [2560]", "mlp.fc1.weight [10240, 2560]",
        "mlp.fc1.bias [10240]", "mlp.fc2.weight [2560, 10240]", "mlp.fc2.bias [2560]", "input_layernorm.weight [2560]",
        "input_layernorm.bias [2560]"}},
      {"falcon-7b",
       0,
       "transformer.h.{}.",  // 71 + 2 heads of 64
       {"self_attention.query_key_value.weight [4672, 4544]", "self_attention.dense.weight [4544, 4544]",
        "mlp.dense_h_to_4h.weight [18176, 4544]", "mlp.dense_4h_to_h.weight [4544, 18176]",
        "input_layernorm.weight [4544]", "input_layernorm.bias [4544]"}},
      {"falcon-40b",
       0,
       "transformer.h.{}.",  // 128 + 16 heads of 64
       {"self_attention.query_key_value.weight [9216, 8192]", "self_attention.dense.weight [8192, 8192]",
        "mlp.dense_h_to_4h.weight [32768, 8192]", "mlp.dense_4h_to_h.weight [8192, 32768]", "ln_attn.weight [8192]",
        "ln_attn.bias [8192]", "ln_mlp.weight [8192]", "ln_mlp.bias [8192]"}},
      {"bloom-560m",
       0,
       "transformer.h.{}.",
       {"input_layernorm.weight [1024]", "input_layernorm.bias [1024]",
        "self_attention.query_key_value.weight [3072, 1024]", "self_attention.query_key_value.bias [3072]",
        "self_attention.dense.weight [1024, 1024]", "self_attention.dense.bias [1024]",
        "post_attention_layernorm.weight [1024]", "post_attention_layernorm.bias [1024]",
        "mlp.dense_h_to_4h.weight [4096, 1024]", "mlp.dense_h_to_4h.bias [4096]",
        "mlp.dense_4h_to_h.weight [1024, 4096]", "mlp.dense_4h_to_h.bias [1024]"}},
      {"qwen-7b",
       0,
       "transformer.h.{}.",
       {"ln_1.weight [4096]", "attn.c_attn.weight [12288, 4096]", "attn.c_attn.bias [12288]",
        "attn.c_proj.weight [4096, 4096]", "ln_2.weight [4096]", "mlp.w1.weight [11008, 4096]",
        "mlp.w2.weight [11008, 4096]", "mlp.c_proj.weight [4096, 11008]"}},
      {"chatglm3-6b",
       0,
       "transformer.encoder.layers.{}.",  // 32 + 2 * 2 heads of 128
       {"input_layernorm.weight [4096]", "self_attention.query_key_value.weight [4608, 4096]",
        "self_attention.query_key_value.bias [4608]", "self_attention.dense.weight [4096, 4096]",
        "post_attention_layernorm.weight [4096]", "mlp.dense_h_to_4h.weight [27392, 4096]",
        "mlp.dense_4h_to_h.weight [4096, 13696]"}},
      {"baichuan2-7b",
       0,
       "model.layers.{}.",
       {"self_attn.W_pack.weight [12288, 4096]", "self_attn.o_proj.weight [4096, 4096]",
        "mlp.gate_proj.weight [11008, 4096]", "mlp.up_proj.weight [11008, 4096]", "mlp.down_proj.weight [4096, 11008]",
        "input_layernorm.weight [4096]", "post_attention_layernorm.weight [4096]"}},
      {"internlm-7b",
       0,
       "model.layers.{}.",
       {"self_attn.q_proj.weight [4096, 4096]", "self_attn.q_proj.bias [4096]", "self_attn.k_proj.weight [4096, 4096]",
        "self_attn.k_proj.bias [4096]", "self_attn.v_proj.weight [4096, 4096]", "self_attn.v_proj.bias [4096]",
        "self_attn.o_proj.weight [4096, 4096]", "self_attn.o_proj.bias [4096]", "mlp.gate_proj.weight [11008, 4096]",
        "mlp.up_proj.weight [11008, 4096]", "mlp.down_proj.weight [4096, 11008]", "input_layernorm.weight [4096]",
        "post_attention_layernorm.weight [4096]"}},
      {"santacoder-1.1b",
       0,
       "transformer.h.{}.",  // 2048 + 2 * 128
       {"ln_1.weight [2048]", "ln_1.bias [2048]", "attn.c_attn.weight [2304, 2048]", "attn.c_attn.bias [2304]",
        "attn.c_proj.weight [2048, 2048]", "attn.c_proj.bias [2048]", "ln_2.weight [2048]", "ln_2.bias [2048]",
        "mlp.c_fc.weight [8192, 2048]", "mlp.c_fc.bias [8192]", "mlp.c_proj.weight [2048, 8192]",
        "mlp.c_proj.bias [2048]"}},
      {"pythia-70m",
       0,
       "gpt_neox.layers.{}.",
       {"input_layernorm.weight [512]", "input_layernorm.bias [512]", "post_attention_layernorm.weight [512]",
        "post_attention_layernorm.bias [512]", "attention.query_key_value.weight [1536, 512]",
        "attention.query_key_value.bias [1536]", "attention.dense.weight [512, 512]", "attention.dense.bias [512]",
        "mlp.dense_h_to_4h.weight [2048, 512]", "mlp.dense_h_to_4h.bias [2048]", "mlp.dense_4h_to_h.weight [512, 2048]",
        "mlp.dense_4h_to_h.bias [512]"}},
      {"gpt-j-6b",
       0,
       "transformer.h.{}.",
       {"ln_1.weight [4096]", "ln_1.bias [4096]", "attn.k_proj.weight [4096, 4096]", "attn.v_proj.weight [4096, 4096]",
        "attn.q_proj.weight [4096, 4096]", "attn.out_proj.weight [4096, 4096]", "mlp.fc_in.weight [16384, 4096]",
        "mlp.fc_in.bias [16384]", "mlp.fc_out.weight [4096, 16384]", "mlp.fc_out.bias [4096]"}},
      {"mpt-7b",
       0,
       "transformer.blocks.{}.",
       {"norm_1.weight [4096]", "attn.Wqkv.weight [12288, 4096]", "attn.out_proj.weight [4096, 4096]",
        "norm_2.weight [4096]", "ffn.up_proj.weight [16384, 4096]", "ffn.down_proj.weight [4096, 16384]"}},
      {"mpt-125m",
       0,
       "transformer.blocks.{}.",
       {"norm_1.weight [768]", "norm_1.bias [768]", "attn.Wqkv.weight [2304, 768]", "attn.Wqkv.bias [2304]",
        "attn.out_proj.weight [768, 768]", "attn.out_proj.bias [768]", "norm_2.weight [768]", "norm_2.bias [768]",
        "ffn.up_proj.weight [3072, 768]", "ffn.up_proj.bias [3072]", "ffn.down_proj.weight [768, 3072]",
        "ffn.down_proj.bias [768]"}},
      {"opt-350m",
       0,
       "model.decoder.layers.{}.",
       {"self_attn.k_proj.weight [1024, 1024]", "self_attn.k_proj.bias [1024]", "self_attn.v_proj.weight [1024, 1024]",
        "self_attn.v_proj.bias [1024]", "self_attn.q_proj.weight [1024, 1024]", "self_attn.q_proj.bias [1024]",
        "self_attn.out_proj.weight [1024, 1024]", "self_attn.out_proj.bias [1024]",
        "self_attn_layer_norm.weight [1024]", "self_attn_layer_norm.bias [1024]", "fc1.weight [4096, 1024]",
        "fc1.bias [4096]", "fc2.weight [1024, 4096]", "fc2.bias [1024]", "final_layer_norm.weight [1024]",
        "final_layer_norm.bias [1024]"}},
      {"starcoder2-3b",
       0,
       "model.layers.{}.",  // 24 query heads and 2 key-value heads of 128
       {"self_attn.q_proj.weight [3072, 3072]", "self_attn.q_proj.bias [3072]", "self_attn.k_proj.weight [256, 3072]",
        "self_attn.k_proj.bias [256]", "self_attn.v_proj.weight [256, 3072]", "self_attn.v_proj.bias [256]",
        "self_attn.o_proj.weight [3072, 3072]", "self_attn.o_proj.bias [3072]", "mlp.c_fc.weight [12288, 3072]",
        "mlp.c_fc.bias [12288]", "mlp.c_proj.weight [3072, 12288]", "mlp.c_proj.bias [3072]",
        "input_layernorm.weight [3072]", "input_layernorm.bias [3072]", "post_attention_layernorm.weight [3072]",
        "post_attention_layernorm.bias [3072]"}},
      {"stablelm-2-1.6b",
       0,
       "model.layers.{}.",
       {"self_attn.q_proj.weight [2048, 2048]", "self_attn.q_proj.bias [2048]", "self_attn.k_proj.weight [2048, 2048]",
        "self_attn.k_proj.bias [2048]", "self_attn.v_proj.weight [2048, 2048]", "self_attn.v_proj.bias [2048]",
        "self_attn.o_proj.weight [2048, 2048]", "mlp.gate_proj.weight [5632, 2048]", "mlp.up_proj.weight [5632, 2048]",
        "mlp.down_proj.weight [2048, 5632]", "input_layernorm.weight [2048]", "input_layernorm.bias [2048]",
        "post_attention_layernorm.weight [2048]", "post_attention_layernorm.bias [2048]"}},
      {"powerlm-3b",
       0,
       "model.layers.{}.",
       {"self_attn.q_proj.weight [2304, 2304]", "self_attn.k_proj.weight [2304, 2304]",
        "self_attn.v_proj.weight [2304, 2304]", "self_attn.o_proj.weight [2304, 2304]",
        "mlp.gate_proj.weight [9216, 2304]", "mlp.up_proj.weight [9216, 2304]", "mlp.down_proj.weight [2304, 9216]",
        "input_layernorm.weight [2304]", "post_attention_layernorm.weight [2304]"}},
      {"olmo-1b",
       0,
       "model.layers.{}.",
       {"self_attn.q_proj.weight [2048, 2048]", "self_attn.k_proj.weight [2048, 2048]",
        "self_attn.v_proj.weight [2048, 2048]", "self_attn.o_proj.weight [2048, 2048]",
        "mlp.gate_proj.weight [8192, 2048]", "mlp.up_proj.weight [8192, 2048]", "mlp.down_proj.weight [2048, 8192]"}},
      {"olmo2-32b",
       0,
       "model.layers.{}.",  // norms on the whole of 40 query heads and 8 key heads of 128
       {"self_attn.q_proj.weight [5120, 5120]", "self_attn.k_proj.weight [1024, 5120]",
        "self_attn.v_proj.weight [1024, 5120]", "self_attn.o_proj.weight [5120, 5120]",
        "self_attn.q_norm.weight [5120]", "self_attn.k_norm.weight [1024]", "mlp.gate_proj.weight [27648, 5120]",
        "mlp.up_proj.weight [27648, 5120]", "mlp.down_proj.weight [5120, 27648]",
        "post_attention_layernorm.weight [5120]", "post_feedforward_layernorm.weight [5120]"}},
      {"mixtral-8x7b",
       0,
       "model.layers.{}.",
       {"self_attn.q_proj.weight [4096, 4096]", "self_attn.k_proj.weight [1024, 4096]",
        "self_attn.v_proj.weight [1024, 4096]", "self_attn.o_proj.weight [4096, 4096]", "input_layernorm.weight [4096]",
        "post_attention_layernorm.weight [4096]", "block_sparse_moe.gate.weight [8, 4096]",
        "block_sparse_moe.experts.{}.w1.weight 8 x [14336, 4096]",
        "block_sparse_moe.experts.{}.w3.weight 8 x [14336, 4096]",
        "block_sparse_moe.experts.{}.w2.weight 8 x [4096, 14336]"}},
      {"qwen1.5-moe-a2.7b",
       0,
       "model.layers.{}.",
       {"self_attn.q_proj.weight [2048, 2048]", "self_attn.q_proj.bias [2048]", "self_attn.k_proj.weight [2048, 2048]",
        "self_attn.k_proj.bias [2048]", "self_attn.v_proj.weight [2048, 2048]", "self_attn.v_proj.bias [2048]",
        "self_attn.o_proj.weight [2048, 2048]", "input_layernorm.weight [2048]",
        "post_attention_layernorm.weight [2048]", "mlp.gate.weight [60, 2048]",
        "mlp.experts.{}.gate_proj.weight 60 x [1408, 2048]", "mlp.experts.{}.up_proj.weight 60 x [1408, 2048]",
        "mlp.experts.{}.down_proj.weight 60 x [2048, 1408]", "mlp.shared_expert.gate_proj.weight [5632, 2048]",
        "mlp.shared_expert.up_proj.weight [5632, 2048]", "mlp.shared_expert.down_proj.weight [2048, 5632]",
        "mlp.shared_expert_gate.weight [1, 2048]"}},
      {"qwen3-30b-a3b",
       0,
       "model.layers.{}.",  // 32 query heads and 4 key-value heads of 128
       {"self_attn.q_proj.weight [4096, 2048]", "self_attn.k_proj.weight [512, 2048]",
        "self_attn.v_proj.weight [512, 2048]", "self_attn.o_proj.weight [2048, 4096]", "self_attn.q_norm.weight [128]",
        "self_attn.k_norm.weight [128]", "input_layernorm.weight [2048]", "post_attention_layernorm.weight [2048]",
        "mlp.gate.weight [128, 2048]", "mlp.experts.{}.gate_proj.weight 128 x [768, 2048]",
        "mlp.experts.{}.up_proj.weight 128 x [768, 2048]", "mlp.experts.{}.down_proj.weight 128 x [2048, 768]"}},
      {"olmoe-1b-7b",
       0,
       "model.layers.{}.",
       {"self_attn.q_proj.weight [2048, 2048]", "self_attn.k_proj.weight [2048, 2048]",
        "self_attn.v_proj.weight [2048, 2048]", "self_attn.o_proj.weight [2048, 2048]",
        "self_attn.q_norm.weight [2048]", "self_attn.k_norm.weight [2048]", "input_layernorm.weight [2048]",
        "post_attention_layernorm.weight [2048]", "mlp.gate.weight [64, 2048]",
        "mlp.experts.{}.gate_proj.weight 64 x [1024, 2048]", "mlp.experts.{}.up_proj.weight 64 x [1024, 2048]",
        "mlp.experts.{}.down_proj.weight 64 x [2048, 1024]"}},
      {"deepseek-moe-16b",
       0,
       "model.layers.{}.",  // the first layer, dense
       {"self_attn.q_proj.weight [2048, 2048]", "self_attn.k_proj.weight [2048, 2048]",
        "self_attn.v_proj.weight [2048, 2048]", "self_attn.o_proj.weight [2048, 2048]", "input_layernorm.weight [2048]",
        "post_attention_layernorm.weight [2048]", "mlp.gate_proj.weight [10944, 2048]",
        "mlp.up_proj.weight [10944, 2048]", "mlp.down_proj.weight [2048, 10944]"}},
      {"deepseek-v2-lite",
       1,
       "model.layers.{}.",  // heads of 128 + 64, values of 128, a latent of 512 + 64
       {"self_attn.q_proj.weight [3072, 2048]", "self_attn.kv_a_proj_with_mqa.weight [576, 2048]",
        "self_attn.kv_a_layernorm.weight [512]", "self_attn.kv_b_proj.weight [4096, 512]",
        "self_attn.o_proj.weight [2048, 2048]", "input_layernorm.weight [2048]",
        "post_attention_layernorm.weight [2048]", "mlp.gate.weight [64, 2048]",
        "mlp.experts.{}.gate_proj.weight 64 x [1408, 2048]", "mlp.experts.{}.up_proj.weight 64 x [1408, 2048]",
        "mlp.experts.{}.down_proj.weight 64 x [2048, 1408]", "mlp.shared_experts.gate_proj.weight [2816, 2048]",
        "mlp.shared_experts.up_proj.weight [2816, 2048]", "mlp.shared_experts.down_proj.weight [2048, 2816]"}},
      {"deepseek-v3",
       1,
       "model.layers.{}.",
       {"self_attn.q_a_proj.weight [1536, 7168]", "self_attn.q_a_layernorm.weight [1536]",
        "self_attn.q_b_proj.weight [24576, 1536]", "self_attn.kv_a_proj_with_mqa.weight [576, 7168]",
        "self_attn.kv_a_layernorm.weight [512]", "self_attn.kv_b_proj.weight [32768, 512]",
        "self_attn.o_proj.weight [7168, 16384]", "input_layernorm.weight [7168]",
        "post_attention_layernorm.weight [7168]", "mlp.gate.weight [256, 7168]",
        "mlp.gate.e_score_correction_bias [256]", "mlp.experts.{}.gate_proj.weight 256 x [2048, 7168]",
        "mlp.experts.{}.up_proj.weight 256 x [2048, 7168]", "mlp.experts.{}.down_proj.weight 256 x [7168, 2048]",
        "mlp.shared_experts.gate_proj.weight [2048, 7168]", "mlp.shared_experts.up_proj.weight [2048, 7168]",
        "mlp.shared_experts.down_proj.weight [7168, 2048]"}},
      {"gpt-oss-20b",
       0,
       "model.layers.{}.",  // 64 query heads and 8 key-value heads of 64
       {"self_attn.q_proj.weight [4096, 2880]", "self_attn.q_proj.bias [4096]", "self_attn.k_proj.weight [512, 2880]",
        "self_attn.k_proj.bias [512]", "self_attn.v_proj.weight [512, 2880]", "self_attn.v_proj.bias [512]",
        "self_attn.o_proj.weight [2880, 4096]", "self_attn.o_proj.bias [2880]", "self_attn.sinks [64]",
        "input_layernorm.weight [2880]", "post_attention_layernorm.weight [2880]", "mlp.router.weight [32, 2880]",
        "mlp.router.bias [32]", "mlp.experts.gate_up_proj [32, 2880, 5760]", "mlp.experts.gate_up_proj_bias [32, 5760]",
        "mlp.experts.down_proj [32, 2880, 2880]", "mlp.experts.down_proj_bias [32, 2880]"}},
      {"llama-4-scout-text",
       0,
       "model.layers.{}.",
       {"self_attn.q_proj.weight [5120, 5120]", "self_attn.k_proj.weight [1024, 5120]",
        "self_attn.v_proj.weight [1024, 5120]", "self_attn.o_proj.weight [5120, 5120]", "input_layernorm.weight [5120]",
        "post_attention_layernorm.weight [5120]", "feed_forward.router.weight [16, 5120]",
        "feed_forward.experts.gate_up_proj [16, 5120, 16384]", "feed_forward.experts.down_proj [16, 8192, 5120]",
        "feed_forward.shared_expert.gate_proj.weight [8192, 5120]",
        "feed_forward.shared_expert.up_proj.weight [8192, 5120]",
        "feed_forward.shared_expert.down_proj.weight [5120, 8192]"}},
      {"t5-3b",
       0,
       "encoder.block.{}.",  // 32 heads of 128 on a width of 1024
       {"layer.0.SelfAttention.q.weight [4096, 1024]", "layer.0.SelfAttention.k.weight [4096, 1024]",
        "layer.0.SelfAttention.v.weight [4096, 1024]", "layer.0.SelfAttention.o.weight [1024, 4096]",
        "layer.0.layer_norm.weight [1024]", "layer.1.DenseReluDense.wi.weight [16384, 1024]",
        "layer.1.DenseReluDense.wo.weight [1024, 16384]", "layer.1.layer_norm.weight [1024]"}},
      {"t5-3b",
       1,
       "",
       {"encoder.final_layer_norm.weight [1024]",
        "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight [32, 32]"}},
      {"flan-t5-small",
       2,
       "decoder.block.{}.",  // 6 heads of 64 on a width of 512
       {"layer.0.SelfAttention.q.weight [384, 512]", "layer.0.SelfAttention.k.weight [384, 512]",
        "layer.0.SelfAttention.v.weight [384, 512]", "layer.0.SelfAttention.o.weight [512, 384]",
        "layer.0.layer_norm.weight [512]", "layer.1.EncDecAttention.q.weight [384, 512]",
        "layer.1.EncDecAttention.k.weight [384, 512]", "layer.1.EncDecAttention.v.weight [384, 512]",
        "layer.1.EncDecAttention.o.weight [512, 384]", "layer.1.layer_norm.weight [512]",
        "layer.2.DenseReluDense.wi_0.weight [1024, 512]", "layer.2.DenseReluDense.wi_1.weight [1024, 512]",
        "layer.2.DenseReluDense.wo.weight [512, 1024]", "layer.2.layer_norm.weight [512]"}},
      {"bert-base",
       0,
       "encoder.layer.{}.",
       {"attention.self.query.weight [768, 768]", "attention.self.query.bias [768]",
        "attention.self.key.weight [768, 768]", "attention.self.key.bias [768]",
        "attention.self.value.weight [768, 768]", "attention.self.value.bias [768]",
        "attention.output.dense.weight [768, 768]", "attention.output.dense.bias [768]",
        "attention.output.LayerNorm.weight [768]", "attention.output.LayerNorm.bias [768]",
        "intermediate.dense.weight [3072, 768]", "intermediate.dense.bias [3072]", "output.dense.weight [768, 3072]",
        "output.dense.bias [768]", "output.LayerNorm.weight [768]", "output.LayerNorm.bias [768]"}}};
  for (const Listed& row : listed) {
    CAPTURE(std::string(row.model));
    CAPTURE(row.kind);
    const ModelWeights weights = list_weights(load_model(row.model).spec);
    REQUIRE(row.kind < weights.kinds.size());
    CHECK(weights.kinds[row.kind].prefix == row.prefix);
    const Lines found = lines_of(weights.kinds[row.kind].tensors);
    REQUIRE(found.size() == row.tensors.size());
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == row.tensors[i]);
  }
}

TEST_CASE("the ends of the models have the names of the checkpoints") {
  struct Ends {
    const char* model;
    Lines before, after;
  };
  const std::vector<Ends> listed{
      {"phi-1.5",
       {"model.embed_tokens.weight [51200, 2048]"},
       {"model.final_layernorm.weight [2048]", "model.final_layernorm.bias [2048]", "lm_head.weight [51200, 2048]",
        "lm_head.bias [51200]"}},
      {"bloom-560m",
       {"transformer.word_embeddings.weight [250880, 1024]", "transformer.word_embeddings_layernorm.weight [1024]",
        "transformer.word_embeddings_layernorm.bias [1024]"},
       {"transformer.ln_f.weight [1024]", "transformer.ln_f.bias [1024]"}},
      {"chatglm3-6b",
       {"transformer.embedding.word_embeddings.weight [65024, 4096]"},
       {"transformer.encoder.final_layernorm.weight [4096]", "transformer.output_layer.weight [65024, 4096]"}},
      {"pythia-70m",
       {"gpt_neox.embed_in.weight [50304, 512]"},
       {"gpt_neox.final_layer_norm.weight [512]", "gpt_neox.final_layer_norm.bias [512]",
        "embed_out.weight [50304, 512]"}},
      {"opt-350m",
       {"model.decoder.embed_tokens.weight [50272, 512]", "model.decoder.embed_positions.weight [2050, 1024]",
        "model.decoder.project_in.weight [1024, 512]"},
       {"model.decoder.project_out.weight [512, 1024]"}},
      {"opt-125m",
       {"model.decoder.embed_tokens.weight [50272, 768]", "model.decoder.embed_positions.weight [2050, 768]"},
       {"model.decoder.final_layer_norm.weight [768]", "model.decoder.final_layer_norm.bias [768]"}},
      {"mpt-125m",
       {"transformer.wte.weight [50368, 768]", "transformer.wpe.weight [2048, 768]"},
       {"transformer.norm_f.weight [768]", "transformer.norm_f.bias [768]"}},
      {"mpt-7b", {"transformer.wte.weight [50432, 4096]"}, {"transformer.norm_f.weight [4096]"}},
      {"olmo-1b", {"model.embed_tokens.weight [50304, 2048]"}, {}},
      {"flan-t5-small",
       {"shared.weight [32128, 512]", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight [32, 6]"},
       {"decoder.final_layer_norm.weight [512]", "lm_head.weight [32128, 512]"}},
      {"bert-base",
       {"embeddings.word_embeddings.weight [30522, 768]", "embeddings.position_embeddings.weight [512, 768]",
        "embeddings.token_type_embeddings.weight [2, 768]", "embeddings.LayerNorm.weight [768]",
        "embeddings.LayerNorm.bias [768]"},
       {"pooler.dense.weight [768, 768]", "pooler.dense.bias [768]"}}};
  for (const Ends& row : listed) {
    CAPTURE(std::string(row.model));
    const ModelWeights weights = list_weights(load_model(row.model).spec);
    CHECK(lines_of(weights.before) == row.before);
    CHECK(lines_of(weights.after) == row.after);
  }
}

TEST_CASE("layers are numbered as in the checkpoint: from 0 in each stack, experts where the config says") {
  const ModelWeights t5 = list_weights(load_model("t5-small").spec);  // 6 encoder layers, the bridge, 6 decoder layers
  CHECK(t5.layer(5).name == std::string("encoder layer"));
  CHECK(t5.layer(6).is_bridge);
  CHECK(t5.layer(7).offset == 7);
  const ModelWeights v3 = list_weights(load_model("deepseek-v3").spec);
  CHECK_FALSE(v3.layer(2).is_moe);  // first_k_dense_replace 3
  CHECK(v3.layer(3).is_moe);
  CHECK(v3.num_of_kind(0) == 3);
  CHECK(v3.num_of_kind(1) == 58);
}
