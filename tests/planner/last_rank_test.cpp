// Memory of the last rank under tensor, pipeline and expert parallelism at once, as a functional test of Megatron-LM
// recorded it: the most that torch's allocator held.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "models/hf_config.h"
#include "planner/plan_builder.h"

using namespace gpuplan;
using namespace gpuplan::test;

namespace {

/// Widths of NVIDIA/Megatron-LM tests/functional_tests/test_cases/moe/gpt3_mcore_te_tp2_pp2_ep4_etp1_memory_speed
/// (model_config.yaml @d98e8a64d), without the layer that predicts a further token. 50,257 tokens, padded to 2 x 3,232.
constexpr const char* kMixture = R"({
  "model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "vocab_size": 51712, "hidden_size": 1024,
  "intermediate_size": 4096, "moe_intermediate_size": 1024, "num_hidden_layers": 16, "num_attention_heads": 32,
  "num_key_value_heads": 32, "n_shared_experts": 1, "n_routed_experts": 32, "num_experts_per_tok": 4,
  "first_k_dense_replace": 1, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
  "qk_rope_head_dim": 64, "v_head_dim": 128, "max_position_embeddings": 4096, "tie_word_embeddings": false})";

}  // namespace

TEST_CASE("tp 2, pp 2 of four chunks and ep 4: the last rank, and what its further layer adds by hand") {
  Plan plan;
  plan.spec = parse_hf_config(nlohmann::json::parse(kMixture), "test");
  plan.framework = find_framework("megatron");
  plan.recipe.framework = std::string("megatron");
  plan.cluster = plain_cluster(8);
  plan.recipe.micro_batch = 4, plan.recipe.seq_len = 4096, plan.recipe.grad_accum = 4;
  plan.recipe.attention = AttentionKernel::Eager;  // --attention-backend unfused
  plan.recipe.loss = LossKernel::InPlace;
  plan.options.tp = 2, plan.options.splits_sequence = true;
  plan.options.pp = 2, plan.options.virtual_stages = 4, plan.options.ep = 4;
  plan.build("zero1");
  verify(plan.program);
  const double last = double(plan.peak(1).tensors.count) / 0x1p30;
  // 7 chunks of two layers are in flight. Of a layer, N = 16,384 tokens and 16 heads on a rank, MiB:
  //   probabilities in 16 bit 2,048; q and k 96 each, v 64, attention output 64; latents and their norms 24 + 24 + 8 +
  //   8; inputs of norms, products and residuals 4 x 16; router 1; of the experts' 32,768 rows input 64, gate and up
  //   128, product 64; of the shared one 48
  constexpr double kLayer = (2048 + 96 + 96 + 64 + 64 + 64 + 64 + 1 + 256 + 48) / 1024.0;
  MESSAGE(last);
  CHECK(last == doctest::Approx(46.72).epsilon(0.001));
  // The further layer, which is not planned: a layer of activations; a copy of the embedding, the product of two
  // hidden states and attention at 12 bytes a parameter, experts of this rank alone at 18; MiB: both normed states and
  // their join 64, its output, the last norm's input and output, the join of both outputs 80
  const double dense = 25856.0 * 1024 + 2048 * 1024 / 2 + 1024 * 1536 + 1536 * 16 * 192 + 1024 * 576 + 512 * 16 * 256 +
                       16 * 128 * 1024 + 3 * 1024 * 512 + 32 * 1024;
  const double experts = 8.0 * 3 * 1024 * 1024;
  const double further = kLayer + (12 * dense + 18 * experts) / 0x1p30 + (64 + 80) / 1024.0;
  CHECK(further == doctest::Approx(3.77).epsilon(0.005));
  // golden_values_dev_dgx_h100.json: 53.94 GiB up to step 29, then more as tokens heap on experts, 55.98 in the end;
  // golden_values_dev_dgxh100_dgxc.json, the same on other machines: 53.94 and 53.98. What is missing: logits of the
  // further token beside those of the next (1.6 GiB in fp32), workspaces of Transformer Engine, uneven loads
  CHECK(last + further == doctest::Approx(53.94).epsilon(0.07));
  CHECK(last + further < 53.94);
}
