// The ends of each family's model, and how its layers are numbered, as in the checkpoints on the hub. Sources: as of
// models/family_tensors_test.cpp.
#include <doctest/doctest.h>

#include "models/catalogue.h"
#include "models/tensor_lines.h"
#include "models/weights.h"

using namespace gpuplan;
using namespace gpuplan::test;

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
       {"pooler.dense.weight [768, 768]", "pooler.dense.bias [768]"}},
      {"modernbert-base",
       {"embeddings.tok_embeddings.weight [50368, 768]", "embeddings.norm.weight [768]"},
       {"final_norm.weight [768]"}},
      {"deberta-v3-base",
       {"embeddings.word_embeddings.weight [128100, 768]", "embeddings.LayerNorm.weight [768]",
        "embeddings.LayerNorm.bias [768]", "encoder.rel_embeddings.weight [512, 768]", "encoder.LayerNorm.weight [768]",
        "encoder.LayerNorm.bias [768]"},
       {}}};
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
