// What each family makes of a config.json: class defaults, its own key names, and the key that a refusal names.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/catalogue.h"
#include "models/families.h"
#include "models/family_configs.h"
#include "models/hf_config.h"
#include "models/weights.h"

using namespace gpuplan;
using namespace gpuplan::test;
using nlohmann::json;

TEST_CASE("a config that states nothing gets the sizes of its class") {
  // Source: defaults of the transformers config classes; the count of the hub model they describe.
  struct Default {
    const char* model_type;
    const char* same_as;
  };
  for (const Default& row : {Default{"falcon", "falcon-7b"},
                             {"gptj", "gpt-j-6b"},
                             {"t5", "t5-small"},
                             {"bert", "bert-base"},
                             {"modernbert", "modernbert-base"},
                             {"opt", "opt-125m"},
                             {"qwen", "qwen-7b"}}) {
    CAPTURE(std::string(row.model_type));
    CHECK(list_weights(parse_config({{"model_type", row.model_type}})).total_elements() ==
          *load_model(row.same_as).spec.recorded_parameters);
  }
  CHECK(parse_config(json{{"model_type", "mt5"}}).vocab_size == 250112);
  // RoBERTa counts positions from the one behind its padding token on: of 514 rows 512 are tokens'
  const ModelSpec roberta =
      parse_config({{"model_type", "roberta"}, {"max_position_embeddings", 514}, {"type_vocab_size", 1}});
  CHECK(roberta.max_position_embeddings == 512);
  CHECK(list_weights(roberta).total_elements() == *load_model("roberta-base").spec.recorded_parameters);
  CHECK(load_model("FacebookAI/xlm-roberta-large").spec.recorded_parameters == 559'890'432);
  CHECK(parse_config(json{{"model_type", "mpt"}}).position == PositionKind::Alibi);
  CHECK(parse_config(json{{"model_type", "gpt_bigcode"}}).num_key_value_heads == 1);
}

TEST_CASE("encoders are known by their classes for tasks, as config.json names them") {
  CHECK(parse_config({{"model_type", "bert"}, {"architectures", {"BertForMaskedLM"}}}).family == "bert");
  CHECK(parse_config({{"model_type", "xlm-roberta"}, {"architectures", {"XLMRobertaForSequenceClassification"}}})
            .family == "xlm-roberta");
  CHECK(parse_config({{"model_type", "modernbert"}, {"architectures", {"ModernBertForMaskedLM"}}}).family ==
        "modernbert");
  check_config_error({{"model_type", "bert"}, {"architectures", {"BertLMHeadModel"}}},
                     "architecture 'BertLMHeadModel' of model_type 'bert' is not modelled");
}

TEST_CASE("ModernBERT's first layer of three attends to everything, the others to 64 tokens on either side") {
  const ModelSpec base = load_model("modernbert-base").spec, large = load_model("modernbert-large").spec;
  CHECK(base.sliding_layers == 14);  // of 22 layers 0, 3, ... 21 have no window
  CHECK(large.sliding_layers == 18);
  for (std::int64_t i = 0; i < base.num_hidden_layers; ++i) CHECK(base.has_window(i) == (i % 3 != 0));
  for (std::int64_t i = 0; i < large.num_hidden_layers; ++i) CHECK(large.has_window(i) == (i % 3 != 0));
  check_config_error({{"model_type", "modernbert"}, {"norm_bias", true}}, "norm_bias: ModernBERT with this bias");
}

TEST_CASE("DeBERTa's table of positions has two rows per bucket, and projections of its own unless they are shared") {
  const nlohmann::json v3{{"model_type", "deberta-v2"},   {"hidden_size", 768},
                          {"num_hidden_layers", 12},      {"num_attention_heads", 12},
                          {"intermediate_size", 3072},    {"relative_attention", true},
                          {"position_buckets", 256},      {"position_biased_input", false},
                          {"norm_rel_ebd", "layer_norm"}, {"share_att_key", true},
                          {"pos_att_type", "p2c|c2p"}};
  const auto with = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json config = v3;
    config[key] = value;
    return parse_config(config);
  };
  const auto count = [](const ModelSpec& m) { return list_weights(m).total_elements(); };
  const ModelSpec m = parse_config(v3);
  CHECK(m.relative_scores.positions == 512);
  CHECK(count(m) == 183'831'552);
  CHECK(count(with("share_att_key", false)) == count(m) + 12 * 2 * (768 * 768 + 768));
  const auto c2p = with("pos_att_type", {"c2p"});
  CHECK(c2p.relative_scores.content_to_position);
  CHECK_FALSE(c2p.relative_scores.position_to_content);
  CHECK(with("position_buckets", -1).relative_scores.positions == 2 * 512);  // max_position_embeddings
  CHECK(count(with("norm_rel_ebd", "none")) == count(m) - 2 * 768);
  CHECK(count(with("position_biased_input", true)) == count(m) + 512 * 768);
  nlohmann::json conv = v3;
  conv["conv_kernel_size"] = 3;
  check_config_error(conv, "conv_kernel_size: DeBERTa with a convolution");
}

TEST_CASE("families read the keys of their own configs") {
  const ModelSpec falcon = parse_config({{"model_type", "falcon"},
                                         {"hidden_size", 64},
                                         {"n_layer", 2},
                                         {"n_head", 4},
                                         {"n_head_kv", 2},
                                         {"new_decoder_architecture", true}});
  CHECK(falcon.num_hidden_layers == 2);
  CHECK(falcon.num_key_value_heads == 2);
  CHECK(falcon.residual == ResidualKind::ParallelTwoNorms);
  const ModelSpec glm = parse_config({{"model_type", "chatglm"},
                                      {"num_layers", 3},
                                      {"ffn_hidden_size", 96},
                                      {"padded_vocab_size", 200},
                                      {"seq_length", 77}});
  CHECK(glm.num_hidden_layers == 3);
  CHECK(glm.intermediate_size == 96);
  CHECK(glm.vocab_size == 200);
  CHECK(glm.max_position_embeddings == 77);
  CHECK(glm.num_key_value_heads == 32);  // multi_query_attention is off by default
  const ModelSpec t5 = parse_config({{"model_type", "t5"},
                                     {"d_model", 64},
                                     {"d_kv", 8},
                                     {"d_ff", 96},
                                     {"num_layers", 2},
                                     {"num_decoder_layers", 3},
                                     {"num_heads", 5},
                                     {"feed_forward_proj", "gated-silu"},
                                     {"dropout_rate", 0.0}});
  CHECK(t5.num_encoder_layers == 2);
  CHECK(t5.num_hidden_layers == 3);
  CHECK(t5.num_layers() == 6);
  CHECK(t5.q_width() == 40);
  CHECK(t5.activation == "silu");
  CHECK(t5.mlp == MlpKind::Gated);
  CHECK(t5.mlp_dropout == 0);
  CHECK(parse_config({{"model_type", "gptj"}, {"n_embd", 64}, {"n_layer", 2}, {"n_head", 4}, {"rotary_dim", 4}})
            .rotary_fraction == 0.25);
  CHECK(parse_config(sized("gpt_neox", {{"rotary_pct", 1.0}, {"use_parallel_residual", false}})).residual ==
        ResidualKind::Sequential);
  CHECK(parse_config(sized("phi", {{"rope_parameters", {{"partial_rotary_factor", 0.4}}}})).rotary_fraction == 0.4);
  CHECK(parse_config(sized("qwen", {{"intermediate_size", 256}, {"kv_channels", 16}})).intermediate_size == 128);
}

TEST_CASE("variants of the families survive writing and reading") {
  for (const json& config : std::vector<json>{
           {{"model_type", "falcon"},
            {"hidden_size", 64},
            {"num_attention_heads", 4},
            {"num_hidden_layers", 2},
            {"alibi", true},
            {"bias", true},
            {"multi_query", false},
            {"parallel_attn", false}},  // Falcon-RW
           {{"model_type", "falcon"},
            {"hidden_size", 64},
            {"num_attention_heads", 4},
            {"num_hidden_layers", 2},
            {"num_kv_heads", 2},
            {"new_decoder_architecture", true},
            {"num_ln_in_parallel_attn", 1}},  // Falcon 2
           {{"model_type", "mpt"},
            {"attn_config",
             {{"attn_type", "grouped_query_attention"}, {"kv_n_heads", 4}, {"alibi", false}, {"rope", true}}}},
           {{"model_type", "mpt"}, {"attn_config", {{"alibi", false}}}, {"no_bias", false}, {"max_seq_len", 99}},
           {{"model_type", "mpt"}, {"attn_config", {{"alibi", false}}}, {"learned_pos_emb", false}},
           {{"model_type", "opt"}, {"enable_bias", false}, {"_remove_final_layer_norm", true}},
           {{"model_type", "gptj"}, {"rotary_dim", nullptr}, {"tie_word_embeddings", true}},
           {{"model_type", "gpt_bigcode"}, {"multi_query", false}, {"n_head", 8}},
           {{"model_type", "t5"}, {"num_layers", 2}, {"num_decoder_layers", 5}, {"feed_forward_proj", "gated-gelu"}},
           {{"model_type", "chatglm"}, {"add_bias_linear", true}, {"rmsnorm", false}, {"post_layer_norm", false}},
           sized("baichuan", {{"num_key_value_heads", 4}, {"model_max_length", 99}}),
           sized("gpt_neox", {{"attention_bias", false}, {"use_parallel_residual", false}}),
           sized("stablelm", {{"use_parallel_residual", true}, {"use_qkv_bias", true}}),
           sized("starcoder2", {{"use_bias", false}, {"sliding_window", 32}}),
           sized("mixtral", {{"sliding_window", 32}}),
           sized("qwen2_moe", {{"decoder_sparse_step", 2}}),
           sized("qwen3_moe", {{"mlp_only_layers", {0, 1}}}),
           sized("llama4_text", {{"interleave_moe_layer_step", 2}, {"moe_layers", {1, 3}}, {"use_qk_norm", false}}),
           sized("gpt_oss", {{"sliding_window", nullptr}}),
           sized("gpt_oss",
                 {{"layer_types", {"full_attention", "full_attention", "full_attention", "sliding_attention"}}}),
           sized("deepseek_v2",
                 {{"q_lora_rank", 24}, {"num_experts_per_tok", 2}, {"n_routed_experts", 4}, {"attention_bias", true}}),
           sized("deepseek", {{"n_routed_experts", 4}, {"num_experts_per_tok", 2}, {"first_k_dense_replace", 2}})}) {
    CAPTURE(config.dump());
    const ModelSpec spec = parse_config(config);
    CHECK(list_weights(spec).total_elements() > 0);
    check_round_trip(spec);
  }
}

TEST_CASE("layers with and without experts follow the config's rule") {
  const auto kinds = [](const json& config) {
    std::string text;
    const ModelWeights weights = list_weights(parse_config(config));
    for (std::int64_t i = 0; i < weights.num_layers(); ++i) text += weights.layer(i).is_moe ? 'E' : 'd';
    return text;
  };
  CHECK(kinds(sized("qwen2_moe")) == "EEEE");
  CHECK(kinds(sized("qwen2_moe", {{"decoder_sparse_step", 2}})) == "dEdE");
  CHECK(kinds(sized("qwen3_moe", {{"mlp_only_layers", {0}}})) == "dEEE");
  CHECK(kinds(sized("llama4_text", {{"interleave_moe_layer_step", 2}})) == "dEdE");
  CHECK(kinds(sized("deepseek_v3", {{"num_attention_heads", 4}})) == "dddE");
  CHECK(kinds(sized("qwen3_moe", {{"decoder_sparse_step", 8}})) == "dddd");
}

TEST_CASE("other class names of the same tensors, and a multimodal Llama 4, find their row") {
  struct Row {
    const char *model_type, *architecture;
  };
  for (const Row& row : {Row{"mpt", "MptForCausalLM"},
                         {"mpt", "MPTForCausalLM"},
                         {"t5", "T5WithLMHeadModel"},
                         {"chatglm", "ChatGLMForConditionalGeneration"},
                         {"baichuan", "BaiChuanForCausalLM"},
                         {"llama4", "Llama4ForConditionalGeneration"}}) {
    CAPTURE(std::string(row.architecture));
    CHECK(find_family(row.model_type, row.architecture) != nullptr);
  }
  const ModelSpec scout =
      parse_config({{"architectures", {"Llama4ForConditionalGeneration"}},
                    {"model_type", "llama4"},
                    {"text_config", {{"hidden_size", 5120}, {"intermediate_size", 8192}, {"num_hidden_layers", 48}}}});
  CHECK(list_weights(scout).total_elements() == 107'769'861'120);  // the catalogue's llama-4-scout-text
}

TEST_CASE("a bad value is refused with the name of its key") {
  check_config_error(sized("phi", {{"qk_layernorm", true}}), "qk_layernorm: norms on q and k are not modelled");
  check_config_error(sized("phi", {{"partial_rotary_factor", 1.5}}), "partial_rotary_factor: 1.5 is not a share");
  check_config_error({{"model_type", "falcon"}, {"num_ln_in_parallel_attn", 3}},
                     "num_ln_in_parallel_attn: 3 is too large");
  check_config_error({{"model_type", "falcon"}, {"hidden_size", 65}}, "heads do not divide hidden_size 65");
  check_config_error({{"model_type", "bloom"}, {"n_layer", 2}, {"n_head", 4}}, "n_embed: is missing");
  check_config_error({{"model_type", "bloom"},
                      {"hidden_size", 64},
                      {"n_layer", 2},
                      {"n_head", 4},
                      {"apply_residual_connection_post_layernorm", true}},
                     "apply_residual_connection_post_layernorm: a residual after the norm is not modelled");
  check_config_error({{"model_type", "qwen"}, {"intermediate_size", 127}}, "intermediate_size: 127 is odd");
  check_config_error({{"model_type", "chatglm"}, {"multi_query_attention", true}, {"multi_query_group_num", 3}},
                     "3 does not divide the 32 attention heads");
  check_config_error(sized("baichuan"), "num_key_value_heads: Baichuan has as many");
  check_config_error({{"model_type", "gpt_bigcode"}, {"attn_pdrop", 1.0}}, "attn_pdrop: 1 is not a probability");
  check_config_error(sized("gpt_neox", {{"rotary_pct", -1}}), "rotary_pct: -1 is not a share");
  check_config_error({{"model_type", "gptj"}, {"rotary_dim", "64"}}, "rotary_dim: must be a whole number");
  check_config_error({{"model_type", "mpt"}, {"attn_config", 3}}, "attn_config: must be an object {...}, found 3");
  check_config_error({{"model_type", "mpt"}, {"attn_config", {{"qk_ln", true}}}},
                     "attn_config.qk_ln: norms on q and k are not modelled");
  check_config_error({{"model_type", "mpt"}, {"attn_config", {{"attn_type", "linear"}}}},
                     "attn_config.attn_type: 'linear' is not modelled");
  check_config_error({{"model_type", "opt"}, {"layer_norm_elementwise_affine", false}},
                     "layer_norm_elementwise_affine");
  check_config_error(sized("stablelm", {{"qk_layernorm", true}}), "qk_layernorm");
  check_config_error(sized("starcoder2", {{"hidden_act", "tanh"}}), "hidden_act: unknown activation 'tanh'");
  check_config_error({{"model_type", "t5"}, {"feed_forward_proj", "gated-tanh"}},
                     "feed_forward_proj: 'gated-tanh' is not modelled");
  check_config_error({{"model_type", "bert"}, {"is_decoder", true}}, "is_decoder: BERT as a decoder is not modelled");
  check_config_error(sized("mixtral", {{"num_experts_per_tok", 9}}),
                     "num_experts_per_tok: 9 is more than the 8 experts");
  check_config_error(sized("mixtral", {{"num_local_experts", 0}}), "num_local_experts: 0 is too small");
  check_config_error(sized("qwen2_moe", {{"mlp_only_layers", {1}}}), "mlp_only_layers: only leading layers");
  check_config_error(sized("qwen3_moe", {{"decoder_sparse_step", 0}}), "decoder_sparse_step: 0 is too small");
  check_config_error(sized("llama4_text", {{"moe_layers", {0, 1}}}), "moe_layers: must be every layer of step 1");
  check_config_error(sized("deepseek", {{"num_experts_per_tok", 2}}), "n_routed_experts: is missing");
  check_config_error(sized("deepseek_v2"), "num_experts_per_tok: is missing");
  check_config_error(sized("deepseek_v3", {{"moe_layer_freq", 2}}), "moe_layer_freq: only 1");
  check_config_error(sized("olmoe", {{"intermediate_size", nullptr}}), "intermediate_size: is missing");
  check_config_error(sized("mixtral", {{"num_local_experts", 8192},
                                       {"hidden_size", 1 << 18},
                                       {"intermediate_size", 1 << 20},
                                       {"num_hidden_layers", 1024}}),
                     "num_local_experts: 8192 experts in 1024 layers are more parameters than can be counted");
}

TEST_CASE("facts of the modelling code that memory depends on") {
  CHECK(load_model("bloom-560m").spec.materialises_scores);
  CHECK(load_model("t5-small").spec.materialises_scores);
  CHECK(load_model("chatglm3-6b").spec.materialises_scores);
  CHECK_FALSE(load_model("glm-4-9b").spec.materialises_scores);  // its code has sdpa and flash attention
  CHECK(load_model("baichuan2-13b").spec.materialises_scores);
  CHECK(load_model("gpt-oss-20b").spec.materialises_scores);
  for (const char* name :
       {"falcon-7b", "gpt-j-6b", "pythia-70m", "opt-125m", "mpt-7b", "phi-2", "baichuan2-7b", "bert-base"})
    CHECK_FALSE(load_model(name).spec.materialises_scores);
  for (const char* name : {"qwen-7b", "santacoder-1.1b", "baichuan2-7b"})
    CHECK(load_model(name).spec.keeps_16bit_logits);
  CHECK_FALSE(load_model("chatglm3-6b").spec.keeps_16bit_logits);  // upcast, then cast back
  // dropouts of the published configs
  CHECK(load_model("phi-2").spec.residual_dropout == 0.1);
  CHECK(load_model("phi-1.5").spec.residual_dropout == 0);
  CHECK(load_model("opt-125m").spec.residual_dropout == 0.1);
  CHECK(load_model("santacoder-1.1b").spec.attention_dropout == 0.1);
  CHECK(load_model("t5-small").spec.mlp_dropout == 0.1);
  CHECK(load_model("starcoder2-3b").spec.residual_dropout == 0.1);
  CHECK(load_model("gpt-neox-20b").spec.activation == "gelu_new");  // gelu_fast: the same intermediates
  for (const char* name : {"falcon-7b", "bloom-560m", "gpt-j-6b", "pythia-70m", "mpt-7b"})
    CHECK(load_model(name).spec.residual_dropout == 0);
}

TEST_CASE("OLMo 3 and EXAONE 4 say which layers have a window by list, by number, by word, or by default") {
  CHECK(parse_config(sized("olmo3")).sliding_layers == 3);  // of 4: the fourth attends fully
  CHECK(parse_config(sized("olmo3")).sliding_window == 4096);
  const json types = {"full_attention", "sliding_attention", "full_attention", "full_attention"};
  CHECK(parse_config(sized("olmo3", {{"layer_types", types}})).sliding_layers == 1);
  CHECK(parse_config(sized("exaone4")).sliding_layers == 3);  // the window of the class
  json without = sized("exaone4");
  without["sliding_window"] = nullptr;
  CHECK(parse_config(without).sliding_layers == 0);
  CHECK(parse_config(sized("exaone4", {{"sliding_window", 64}, {"sliding_window_pattern", "LG"}})).sliding_layers == 2);
  CHECK(parse_config(sized("exaone4", {{"sliding_window", 64}, {"sliding_window_pattern", 4}})).sliding_layers == 3);
  for (const char* type : {"olmo3", "exaone4"}) check_round_trip(parse_config(sized(type, {{"sliding_window", 64}})));
}

TEST_CASE("families of 2025 read their own keys") {
  const ModelSpec seed = parse_config(sized("seed_oss"));
  CHECK(seed.has_qkv_bias);
  CHECK_FALSE(seed.has_o_bias);
  CHECK(seed.head_dim == 128);  // of the class, not width / heads
  const ModelSpec glm = parse_config(sized("glm4", {{"attention_bias", true}, {"head_dim", 16}}));
  CHECK(glm.rotary_dims() == 8);
  CHECK((glm.has_qkv_bias && !glm.has_o_bias && glm.norm_placement == NormPlacement::Sandwich));
  const ModelSpec minimax =
      parse_config(sized("minimax_m2", {{"head_dim", 16}, {"rotary_dim", 4}, {"num_local_experts", 8}}));
  CHECK(minimax.rotary_fraction == 0.25);
  CHECK(minimax.qk_norm == QkNorm::Full);
  check_config_error(sized("minimax_m2", {{"qk_norm_type", "per_head"}}), "qk_norm_type");
  const ModelSpec ernie =
      parse_config(sized("ernie4_5_moe", {{"moe_num_experts", 8}, {"moe_k", 2}, {"moe_layer_end_index", 3}}));
  CHECK(ernie.moe.experts_per_token == 2);
  CHECK(ernie.moe.shared_intermediate_size == 2 * 1536);
  CHECK(ernie.moe.num_dense_layers == 1);
  check_config_error(sized("ernie4_5_moe", {{"moe_layer_end_index", 2}}), "moe_layer_end_index");
  check_config_error(sized("ernie4_5_moe", {{"moe_layer_interval", 2}}), "moe_layer_interval");
  const ModelSpec air = parse_config(sized("glm4_moe", {{"attention_bias", true}, {"n_routed_experts", 8}}));
  CHECK((air.has_qkv_bias && !air.has_o_bias && air.moe.has_router_correction && air.qk_norm == QkNorm::None));
  const json experts{{"num_experts", 8}, {"moe_topk", {2, 2, 2, 2}}};  // a list of one number for every layer
  const ModelSpec hunyuan = parse_config(sized("hunyuan_v1_moe", experts));
  CHECK(hunyuan.moe.experts_per_token == 2);
  CHECK(hunyuan.moe.shared_intermediate_size == hunyuan.moe.intermediate_size);
  check_config_error(sized("hunyuan_v1_moe", {{"num_experts", 8}, {"moe_topk", {2, 2, 1, 2}}}),
                     "moe_topk: numbers that");
  for (const ModelSpec& spec : {seed, glm, minimax, ernie, air, hunyuan}) check_round_trip(spec);
}

TEST_CASE("Nemotron and Arcee have a plain MLP with a squared ReLU") {
  const ModelSpec nemotron = parse_config(sized("nemotron")), arcee = parse_config(sized("arcee"));
  CHECK((nemotron.norm == NormKind::LayerNorm && arcee.norm == NormKind::RmsNorm));
  CHECK(nemotron.rotary_dims() == 8);  // half of 16
  for (const ModelSpec& spec : {nemotron, arcee}) {
    CHECK((spec.mlp == MlpKind::Plain && spec.activation == "relu2"));
    check_round_trip(spec);
  }
}

TEST_CASE("Kimi K2 is DeepSeek-V3 under another name") {
  json config = {{"hidden_size", 64},
                 {"num_hidden_layers", 4},
                 {"num_attention_heads", 4},
                 {"intermediate_size", 128},
                 {"architectures", {"DeepseekV3ForCausalLM"}},
                 {"model_type", "deepseek_v3"}};
  const std::int64_t deepseek = list_weights(parse_config(config)).total_elements();
  config["model_type"] = "kimi_k2";
  CHECK(parse_config(config).family == "kimi_k2");
  CHECK(list_weights(parse_config(config)).total_elements() == deepseek);
}

TEST_CASE("of the multimodal Mistral Small 3.1 and later, the text model is read") {
  json text = sized("mistral");
  text["sliding_window"] = nullptr;
  const ModelSpec spec = parse_config(
      {{"architectures", {"Mistral3ForConditionalGeneration"}}, {"model_type", "mistral3"}, {"text_config", text}});
  CHECK(spec.family == "mistral");
  CHECK(spec.sliding_window == 0);
}

TEST_CASE("a family that is not modelled is refused with the reason") {
  check_config_error({{"model_type", "minimax"}}, "linear-attention layers");
  check_config_error({{"model_type", "zamba"}}, "of the first Mamba are modelled");
  check_config_error({{"model_type", "molmo"}}, "vision tower");
  check_config_error({{"model_type", "never-heard-of"}}, "unknown architecture 'never-heard-of'");
}

TEST_CASE("Gemma 4: layers without a window have other heads, the last ones earlier keys; windows stand in turn") {
  const json config{{"model_type", "gemma4"},
                    {"text_config",
                     {{"model_type", "gemma4_text"},
                      {"hidden_size", 64},
                      {"num_hidden_layers", 6},
                      {"num_attention_heads", 4},
                      {"num_key_value_heads", 2},
                      {"intermediate_size", 128},
                      {"vocab_size", 100},
                      {"head_dim", 16},
                      {"global_head_dim", 32},
                      {"vocab_size_per_layer_input", 100},
                      {"hidden_size_per_layer_input", 8},
                      {"num_kv_shared_layers", 2},
                      {"use_double_wide_mlp", true}}}};
  const ModelSpec spec = parse_config(config);
  check_round_trip(spec);
  CHECK(spec.sliding_layers == 5);  // every sixth layer has none
  CHECK(global_of(spec).q_width() == 128);
  const auto elements = [](const ModelSpec& m, std::int64_t layer) { return list_weights(m).layer(layer).elements(); };
  // without k_proj, v_proj and k_norm, 2 * 64 * 32 + 16, and with twice the MLP, 3 * 64 * 128
  CHECK(elements(spec, 4) - elements(spec, 0) == 3 * 64 * 128 - (2 * 64 * 32 + 16));
  CHECK(list_weights(spec).layer(5).is_global);
  const auto changed = [&](const json& changes) {
    json other = config;
    other["text_config"].merge_patch(changes);
    return other;
  };
  const ModelSpec tied = parse_config(
      changed({{"attention_k_eq_v", true}, {"num_global_key_value_heads", 1}, {"num_kv_shared_layers", 0}}));
  check_round_trip(tied);
  // layer 5: q and o twice as wide, 2 * 64 * 64 more; one head of 32 for keys and values instead of two of 16 each,
  // 2 * 64 * 32 - 64 * 32 less; norms of 32 instead of 16
  CHECK(elements(tied, 5) - elements(tied, 0) == 2 * 64 * 64 - 64 * 32 + 2 * 16);
  const json full = "full_attention", sliding = "sliding_attention";
  check_config_error(changed({{"layer_types", {full, sliding, sliding, sliding, sliding, sliding}}}), "fixed period");
  check_config_error(changed({{"num_kv_shared_layers", 6}}), "no layer with keys and values");
  check_config_error(changed({{"attention_k_eq_v", true}, {"num_global_key_value_heads", 3}}), "does not divide");
}

TEST_CASE(
    "Gemma 3n: streams, a low-rank branch, sparse layers first, earlier keys last; its towers are counted and idle") {
  const json config{{"model_type", "gemma3n"},
                    {"text_config",
                     {{"hidden_size", 64},
                      {"num_hidden_layers", 10},
                      {"num_attention_heads", 4},
                      {"num_key_value_heads", 2},
                      {"intermediate_size", json::array({128, 128, 128, 128, 128, 128, 128, 128, 128, 128})},
                      {"vocab_size", 100},
                      {"head_dim", 16},
                      {"hidden_size_per_layer_input", 8},
                      {"vocab_size_per_layer_input", 100},
                      {"num_kv_shared_layers", 4},
                      {"activation_sparsity_pattern", {0.95, 0.95, 0, 0, 0, 0, 0, 0, 0, 0}}}}};
  const ModelSpec spec = parse_config(config);
  check_round_trip(spec);
  CHECK(spec.sliding_layers == 8);  // every fifth layer has no window
  CHECK(spec.stream_width() == 4 * 64);
  const ModelWeights weights = list_weights(spec);
  CHECK(weights.layer(1).is_sparse);
  CHECK(!weights.layer(2).is_sparse);
  CHECK(weights.layer(5).elements() - weights.layer(6).elements() == 2 * 64 * 32 + 16);  // k_proj, v_proj, k_norm
  // MobileNet-v5, the conformer, and a table of 128 rows, two norms and a Linear for each
  CHECK(weights.part_elements(ModelPart::Idle) ==
        294'126'912 + 681'348'640 + 128 * (2048 + 1536) + 2 * (2048 + 1536) + 64 * (2048 + 1536));
  const auto changed = [&](const json& changes) {
    json other = config;
    other.merge_patch(changes);
    return other;
  };
  const auto text = [&](const json& changes) { return changed({{"text_config", changes}}); };
  CHECK(parse_config(text({{"activation_sparsity_pattern", nullptr}})).altup.num_sparse_layers == 0);  // of ten layers
  check_config_error(text({{"activation_sparsity_pattern", {0, 0.95, 0, 0, 0, 0, 0, 0, 0, 0}}}), "before all others");
  check_config_error(text({{"activation_sparsity_pattern", {0.95}}}), "each of the 10 layers");
  check_config_error(text({{"intermediate_size", {128, 64}}}), "different widths");
  check_config_error(text({{"num_kv_shared_layers", 10}}), "no layer with keys and values");
  check_config_error(changed({{"audio_config", {{"hidden_size", 512}}}}), "audio towers");
  check_config_error(changed({{"vision_config", {{"architecture", "resnet50"}}}}), "mobilenetv5_300m_enc");
  check_config_error(json{{"model_type", "gemma3n_text"}, {"architectures", {"Gemma3nForCausalLM"}}},
                     "with its towers");
}

TEST_CASE("Gemma 4's unified form has no towers; what takes patches and sound is counted and idle") {
  json config = read_json_file(data_dir() / "models" / "gemma-4-12b.json").at("config");
  config["model_type"] = "gemma4_unified";
  const ModelWeights weights = list_weights(parse_config(config));
  CHECK(weights.total_elements() == 11'959'730'224);  // as published
  CHECK(weights.part_elements(ModelPart::Idle) == 35'176'704 + (3840 + 640) * 3840);
  CHECK(weights.layer(0).prefix == "model.language_model.layers.{}.");
  CHECK(weights.before[0].name == "model.language_model.embed_tokens.weight");
  config["vision_config"]["mm_posemb_size"] = 64;
  check_config_error(config, "only the published size, 1120, is known");
}

TEST_CASE("Apertus has an activation with weights; Phi-3.5-MoE has LayerNorms and biases") {
  const ModelSpec apertus = parse_config(sized("apertus"));
  CHECK(apertus.activation == "xielu");
  CHECK(apertus.mlp == MlpKind::Plain);
  check_round_trip(apertus);
  check_config_error(sized("apertus", {{"post_norm", true}}), "post_norm");
  const ModelSpec phi = parse_config(sized("phimoe", {{"attention_bias", true}, {"lm_head_bias", true}}));
  CHECK(phi.moe.num_experts == 16);
  check_round_trip(phi);
  // 4 layers: q 64 + k and v 32 each + o 64 biases; the head's 100
  CHECK(list_weights(phi).total_elements() - list_weights(parse_config(sized("phimoe"))).total_elements() ==
        4 * (64 + 2 * 32 + 64) + 100);
}

TEST_CASE("LFM2 with experts: the first layers have an MLP, whose width is stated as it is") {
  const ModelSpec spec =
      parse_config(sized("lfm2_moe", {{"full_attn_idxs", {2}}, {"num_experts", 4}, {"num_experts_per_tok", 2}}));
  CHECK(spec.intermediate_size == 128);
  const ModelWeights weights = list_weights(spec);
  CHECK_FALSE(weights.layer(1).is_moe);
  CHECK(weights.layer(2).is_moe);
  CHECK(weights.layer(2).mixer == Mixer::Attention);
  check_round_trip(spec);
}

TEST_CASE("Granite's mixtures of experts are stacked, gate and up in one tensor, and go where no adapter follows") {
  const ModelSpec spec = parse_config({{"architectures", {"GraniteMoeForCausalLM"}},
                                       {"model_type", "granitemoe"},
                                       {"hidden_size", 1024},
                                       {"num_hidden_layers", 2},
                                       {"num_attention_heads", 16},
                                       {"num_key_value_heads", 8},
                                       {"intermediate_size", 512},
                                       {"num_local_experts", 32},
                                       {"num_experts_per_tok", 8},
                                       {"vocab_size", 49155},
                                       {"tie_word_embeddings", true}});
  check_round_trip(spec);
  const ModelWeights weights = list_weights(spec);
  REQUIRE(weights.kinds.size() == 1);
  CHECK(weights.kinds[0].is_moe);
  // a layer: q and o 2 * 1024^2, k and v 2 * 1024 * 512, router 32 * 1024, experts 32 * 3 * 1024 * 512,
  // norms 2 * 1024 = 53,512,192
  CHECK(weights.kinds[0].elements() == 53'512'192);
  std::int64_t num_stacked = 0;
  for (const WeightTensor& tensor : weights.kinds[0].tensors)
    if (tensor.role == WeightRole::Stacked) {
      ++num_stacked;
      CHECK(tensor.is_routed);
      CHECK(tensor.shape == std::vector<std::int64_t>{32, tensor.out, tensor.in});  // as torch's linear takes them
    }
  CHECK(num_stacked == 2);
}

TEST_CASE("DBRX stacks its experts per projection, and has one linear for queries, keys and values") {
  const json config{{"model_type", "dbrx"},
                    {"d_model", 64},
                    {"n_layers", 2},
                    {"n_heads", 4},
                    {"vocab_size", 100},
                    {"attn_config", {{"kv_n_heads", 2}, {"clip_qkv", 8}}},
                    {"ffn_config", {{"ffn_hidden_size", 96}, {"moe_num_experts", 4}, {"moe_top_k", 2}}}};
  const ModelSpec spec = parse_config(config);
  CHECK(spec.moe.experts_per_token == 2);
  CHECK(spec.norm == NormKind::LayerNorm);
  check_round_trip(spec);
  // Wqkv 64 x 128, out_proj 64 x 64, two norms, router 64 x 4, experts 4 x 3 x 64 x 96
  CHECK(list_weights(spec).layer(0).elements() == 8192 + 4096 + 128 + 256 + 73728);
  check_config_error(with(config, {{"ffn_config", nullptr}}), "ffn_config");
}

TEST_CASE("DeepSeek-VL2's language model is one of DeepSeek's, with latent attention or without") {
  const json vision{{"width", 32}, {"layers", 2}, {"heads", 2}, {"mlp_ratio", 2}};
  const json text = with(sized("deepseek_v2"), {{"n_routed_experts", 8},
                                                {"num_experts_per_tok", 2},
                                                {"moe_intermediate_size", 32},
                                                {"first_k_dense_replace", 1},
                                                {"use_mla", false},
                                                {"model_type", nullptr}});
  const json config{{"model_type", "deepseek_vl_v2"}, {"language_config", text}, {"vision_config", vision}};
  const ModelSpec spec = parse_config(config);
  CHECK_FALSE(spec.latent.is_present());
  CHECK(spec.vision.num_layers == 2);
  check_round_trip(spec);
  const json latent = with(config, {{"language_config", {{"use_mla", true}, {"kv_lora_rank", 16}}}});
  CHECK(parse_config(latent).latent.is_present());
  // what reads pages in DeepSeek-OCR is loaded, and neither trained nor timed
  const ModelSpec ocr =
      parse_config(with(config, {{"vision_config", {{"width", {{"clip-l-14-224", json::object()}}}}}}));
  CHECK_FALSE(ocr.vision.is_present());
  CHECK(ocr.idle_parameters == 401'372'160);
  check_round_trip(ocr);
}
