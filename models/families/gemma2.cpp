// Gemma 2: norms before and after attention and MLP; every other layer, the first included, attends within a window.
// Source of defaults: transformers Gemma2Config.
#include "models/families/gemma_norms.h"
#include "models/families/rows.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kDefaultWindow = 4096;
constexpr std::int64_t kPeriod = 2;

void read(Fields& config, ModelSpec& spec) {
  read_decoder(
      config, spec,
      {.num_key_value_heads = 4, .head_dim = 256, .max_position_embeddings = 8192, .tie_word_embeddings = true});
  read_sandwich(config, spec, kDefaultWindow, kPeriod);
  // on by default (30 and 50); an explicit null switches them off
  const auto is_on = [&](const char* key) { return !config.has(key) || config.optional_number(key).has_value(); };
  spec.caps_logits = is_on("final_logit_softcapping");
  spec.caps_scores = is_on("attn_logit_softcapping");
}

void write(const ModelSpec& spec, nlohmann::json& config) {
  write_sandwich(spec, config, kPeriod);
  config["final_logit_softcapping"] = spec.caps_logits ? nlohmann::json(30.0) : nlohmann::json();
  config["attn_logit_softcapping"] = spec.caps_scores ? nlohmann::json(50.0) : nlohmann::json();
}

}  // namespace

constinit const Family kGemma2{.name = "gemma2",
                               .model_type = "gemma2",
                               .architecture = "Gemma2ForCausalLM",
                               .read = read,
                               .write = write,
                               .list = sandwich_norm_weights};

}  // namespace gpuplan
