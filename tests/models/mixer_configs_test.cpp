// Configs of families whose layers are not all attention: Mamba, delta nets, convolutions.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "models/catalogue.h"
#include "models/families.h"
#include "models/family_configs.h"
#include "models/weights.h"

using namespace gpuplan;
using namespace gpuplan::test;

TEST_CASE("Granite 4.0 is read with Mamba-2 layers and without, with experts and without") {
  json config{{"architectures", {"GraniteMoeHybridForCausalLM"}},
              {"model_type", "granitemoehybrid"},
              {"hidden_size", 1024},
              {"num_hidden_layers", 2},
              {"num_attention_heads", 16},
              {"num_key_value_heads", 4},
              {"intermediate_size", 512},
              {"shared_intermediate_size", 2048},
              {"vocab_size", 100352},
              {"num_local_experts", 0},
              {"position_embedding_type", "rope"},
              {"tie_word_embeddings", true},
              {"layer_types", {"attention", "attention"}}};
  const ModelSpec spec = parse_config(config);
  CHECK(spec.intermediate_size == 2048);  // shared_intermediate_size: intermediate_size is of an expert
  // a layer: q and o 2 * 1024^2, k and v 2 * 1024 * 256, MLP 3 * 1024 * 2048, norms 2 * 1024 = 8,914,944;
  // two of them, the embedding 100352 * 1024, the last norm 1024
  CHECK(list_weights(spec).total_elements() == 2 * 8'914'944 + 102'760'448 + 1'024);
  check_round_trip(spec);

  const json mixed = with(config, {{"layer_types", {"mamba", "attention"}},
                                   {"position_embedding_type", "nope"},
                                   {"mamba_n_heads", 32},
                                   {"mamba_d_state", 128}});
  const ModelSpec hybrid = parse_config(mixed);
  CHECK(hybrid.mixers == std::vector{Mixer::Mamba2, Mixer::Attention});
  CHECK(hybrid.mamba2.head_dim == 64);  // twice the width over 32 heads
  CHECK(hybrid.position == PositionKind::None);
  // a Mamba-2 layer instead of attention: in_proj 1024 * (2048 + 2304 + 32), conv1d 2304 * 5, dt_bias, A_log and D of
  // 32, norm 2048, out_proj 2048 * 1024 = 6,600,032; attention is 2 * 1024^2 + 2 * 1024 * 256 = 2,621,440
  CHECK(list_weights(hybrid).total_elements() - list_weights(spec).total_elements() == 6'600'032 - 2'621'440);
  check_round_trip(hybrid);

  const ModelSpec experts = parse_config(with(mixed, {{"num_local_experts", 8}, {"num_experts_per_tok", 2}}));
  check_round_trip(experts);
  // shared_mlp stays; experts of intermediate_size 512 in both layers, and the router
  CHECK(list_weights(experts).total_elements() - list_weights(hybrid).total_elements() ==
        2 * (8 * 3 * 1024 * 512 + 8 * 1024));
  CHECK(parse_config(with(config, {{"layer_types", nullptr}})).num_layers_with(has_mamba2) == 2);  // all of them

  check_config_error(with(config, {{"layer_types", {"conv", "attention"}}}), "layer_types: \"conv\" is not modelled");
  check_config_error(with(config, {{"layer_types", json::array({"attention"})}}), "each of the 2 layers");
  check_config_error(with(mixed, {{"mamba_d_head", 65}}), "32 heads of 65 do not fill an inner width of 2048");
  check_config_error(with(mixed, {{"mamba_n_heads", 33}}), "33 does not divide an inner width of 2048");
  check_config_error(with(mixed, {{"mamba_n_groups", 5}}), "32 heads are not divided by 5 groups");
}

TEST_CASE("Qwen3-Next and Qwen3.5 attend in every fourth layer, unless their list says otherwise") {
  for (const char* type : {"qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"}) {
    CAPTURE(type);
    const ModelSpec spec = parse_config(sized(type, {{"num_hidden_layers", 8}, {"head_dim", 16}}));
    CHECK(spec.num_layers_with(attends) == 2);
    CHECK(spec.mixer(3) == Mixer::Attention);
    CHECK(spec.moe.is_present() == (std::string(type) != "qwen3_5_text"));
    CHECK(spec.delta_net.has_fused_projections == (std::string(type) == "qwen3_next"));
    check_round_trip(spec);
    const ModelSpec listed = parse_config(
        sized(type, {{"layer_types", {"full_attention", "linear_attention", "linear_attention", "full_attention"}}}));
    CHECK(listed.mixer(0) == Mixer::Attention);
    check_round_trip(listed);
    check_config_error(sized(type, {{"layer_types", {"sliding_attention"}}}), "each of the 4 layers");
    check_config_error(sized(type, {{"linear_num_value_heads", 24}}), "must be a multiple of linear_num_key_heads");
  }
}

TEST_CASE("Falcon-H1 has attention and Mamba-2 in every layer") {
  const ModelSpec spec = parse_config(sized("falcon_h1", {{"mamba_d_ssm", 96}, {"mamba_n_heads", 6}}));
  CHECK(spec.num_layers_with(attends) == 4);
  CHECK(spec.num_layers_with(has_mamba2) == 4);
  CHECK(spec.mamba2.inner_width() == 96);
  CHECK_FALSE(spec.mamba2.has_norm);
  check_round_trip(spec);
  check_config_error(sized("falcon_h1", {{"mamba_d_ssm", 96}, {"mamba_n_heads", 6}, {"projectors_bias", true}}),
                     "projectors_bias");
}

TEST_CASE("LFM2 states its MLP's width before an adjustment, and which layers attend") {
  const json config = sized("lfm2", {{"block_ff_dim", 12288}, {"full_attn_idxs", {1, 3}}});
  const ModelSpec spec = parse_config(config);
  CHECK(spec.intermediate_size == 8192);                                                  // two thirds
  CHECK(parse_config(with(config, {{"block_ff_dim", 6656}})).intermediate_size == 4608);  // 4437 rounded up to 256
  CHECK(parse_config(with(config, {{"block_auto_adjust_ff_dim", false}})).intermediate_size == 12288);
  CHECK(spec.num_layers_with(attends) == 2);
  CHECK(spec.mixer(1) == Mixer::Attention);
  CHECK(spec.tie_word_embeddings);
  check_round_trip(spec);
  check_config_error(with(config, {{"full_attn_idxs", {4}}}), "full_attn_idxs: 4 is no layer");
}

TEST_CASE("Nemotron-H: a layer is one of Mamba-2, attention, MLP or mixture of experts, as the pattern says") {
  const json config{{"model_type", "nemotron_h"}, {"hidden_size", 64}, {"hybrid_override_pattern", "M-M*-"}};
  const ModelSpec spec = parse_config(config);
  CHECK(spec.num_hidden_layers == 5);
  CHECK(spec.mixers == std::vector{Mixer::Mamba2, Mixer::None, Mixer::Mamba2, Mixer::Attention, Mixer::None});
  check_round_trip(spec);
  const json listed{
      {"model_type", "nemotron_h"}, {"hidden_size", 64}, {"layers_block_type", {"mamba", "moe", "attention"}}};
  const ModelSpec experts = parse_config(listed);
  CHECK(experts.moe.num_experts == 8);
  check_round_trip(experts);
  check_config_error(with(config, {{"hybrid_override_pattern", "M-X"}}), "'X' is no kind of layer");
  check_config_error(with(config, {{"hybrid_override_pattern", "M-E"}}), "MLPs beside mixtures of experts");
  check_config_error(with(config, {{"hybrid_override_pattern", "M*"}}), "layers without any MLP");
}

TEST_CASE("the first Mamba has sizes of its own, and time steps of low rank") {
  const json config{{"model_type", "mamba"}, {"hidden_size", 64}, {"num_hidden_layers", 2}, {"vocab_size", 100}};
  const ModelSpec spec = parse_config(config);
  CHECK(spec.mamba1.inner_width == 128);
  CHECK(spec.mamba1.time_rank == 4);
  CHECK(spec.tie_word_embeddings);
  CHECK(spec.keeps_fp32_residual);
  check_round_trip(spec);
  CHECK(parse_config(with(config, {{"time_step_rank", 7}, {"intermediate_size", 96}})).mamba1.time_rank == 7);
  // a layer: norm 64, in_proj 64 * 256, conv1d 128 * 4 + 128, x_proj 128 * (4 + 2 * 16), dt_proj 4 * 128 + 128, A_log
  // 128 * 16, D 128, out_proj 128 * 64
  CHECK(list_weights(spec).layer(0).elements() == 64 + 64 * 256 + 640 + 128 * 36 + 640 + 128 * 16 + 128 + 128 * 64);
}

TEST_CASE("Mamba-2 alone is a mixer in every layer; Bamba's layers attend where its list says so") {
  const json config{{"model_type", "mamba2"}, {"hidden_size", 64}, {"num_hidden_layers", 2}, {"num_heads", 8},
                    {"head_dim", 16},         {"n_groups", 1},     {"vocab_size", 100}};
  const ModelSpec spec = parse_config(config);
  CHECK(spec.num_layers_with(attends) == 0);
  CHECK_FALSE(list_weights(spec).layer(0).has_mlp);
  check_round_trip(spec);
  check_config_error(with(config, {{"head_dim", 8}}), "do not fill an inner width of 128");
  const json bamba = sized("bamba", {{"attn_layer_indices", {2}}, {"mamba_n_heads", 8}});
  CHECK(parse_config(bamba).num_layers_with(attends) == 1);
  check_round_trip(parse_config(bamba));
  check_config_error(with(bamba, {{"attn_layer_indices", {4}}}), "4 is no layer");
}

TEST_CASE("Kimi Linear: delta attention where its list says so, latent attention elsewhere, experts behind") {
  const json config = sized("kimi_linear", {{"linear_attn_config",
                                             {{"num_heads", 4},
                                              {"head_dim", 16},
                                              {"short_conv_kernel_size", 4},
                                              {"kda_layers", {1, 2, 3}},
                                              {"full_attn_layers", {4}}}},
                                            {"num_experts", 8},
                                            {"num_experts_per_token", 2},
                                            {"num_shared_experts", 1},
                                            {"moe_intermediate_size", 32},
                                            {"first_k_dense_replace", 1},
                                            {"kv_lora_rank", 16},
                                            {"qk_nope_head_dim", 16},
                                            {"qk_rope_head_dim", 8},
                                            {"v_head_dim", 16}});
  const ModelSpec spec = parse_config(config);
  CHECK(spec.mixers == std::vector{Mixer::DeltaNet, Mixer::DeltaNet, Mixer::DeltaNet, Mixer::Attention});
  CHECK(spec.delta_net.gate_rank == 16);
  check_round_trip(spec);
  // delta attention: q, k, v, o 4 x 64 x 64, convolutions 3 x 64 x 4, decay 64 x 16 + 16 x 64 + 64 + 4, beta 64 x 4,
  // gate 64 x 16 + 16 x 64, norm 16; a dense MLP 3 x 64 x 128; two norms
  CHECK(list_weights(spec).layer(0).elements() == 4 * 4096 + 768 + 2048 + 68 + 256 + 2048 + 16 + 24576 + 128);
  check_config_error(with(config, {{"linear_attn_config", {{"kda_layers", {5}}}}}), "5 is no layer");
  check_config_error(with(config, {{"q_lora_rank", 32}}), "queries through a low rank");
}
