// Gemma 3, the text model: Gemma 2 with a norm per head on q and k, and five windowed layers to one full layer.
// The larger ones are published inside a multimodal model, whose text_config holds only what differs from the defaults.
// Source of defaults: transformers Gemma3TextConfig.
#include "models/families/gemma_norms.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kDefaultWindow = 4096;
constexpr std::int64_t kDefaultPeriod = 6;  // sliding_window_pattern

void read(Fields& config, ModelSpec& spec) {
  read_decoder(config, spec,
               {.num_attention_heads = 8,
                .num_key_value_heads = 4,
                .head_dim = 256,
                .vocab_size = 262208,
                .max_position_embeddings = 131072,
                .tie_word_embeddings = true});
  spec.qk_norm = QkNorm::PerHead;
  read_sandwich(config, spec, kDefaultWindow,
                config.optional_integer("sliding_window_pattern", kLayerRange).value_or(kDefaultPeriod));
}

void write(const ModelSpec& spec, nlohmann::json& config) { write_sandwich(spec, config, kDefaultPeriod); }

}  // namespace

constinit const Family kGemma3Text{.name = "gemma3",
                                   .model_type = "gemma3_text",
                                   .architecture = "Gemma3ForCausalLM",
                                   .wrapper_type = "gemma3",
                                   .wrapper_architecture = "Gemma3ForConditionalGeneration",
                                   .read = read,
                                   .write = write,
                                   .list = sandwich_norm_weights};

}  // namespace gpuplan
