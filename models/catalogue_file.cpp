#include "models/catalogue_file.h"

#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json_file.h"
#include "base/unit_text.h"
#include "models/families.h"
#include "models/hf_config.h"

namespace gpuplan {
namespace {

using nlohmann::json;

struct FieldRow {
  const char *pointer, *key;
};

// Where the catalogue's facts stand, and every name that config classes have for them; a family reads its own. A fact
// of the first kind is passed on as it is.
constexpr std::array kSameFields{"model_type",
                                 "hidden_size",
                                 "num_hidden_layers",
                                 "num_attention_heads",
                                 "num_key_value_heads",
                                 "head_dim",
                                 "intermediate_size",
                                 "vocab_size",
                                 "tie_word_embeddings",
                                 "max_position_embeddings",
                                 "num_decoder_layers",
                                 "word_embed_proj_dim",
                                 "new_decoder_architecture",
                                 "intermediate_size_mlp"};
constexpr std::array kFieldRows{FieldRow{"/mlp/act", "hidden_act"},
                                FieldRow{"/mlp/act", "hidden_activation"},
                                FieldRow{"/mlp/act", "activation_function"},
                                FieldRow{"/mlp/act", "activation"},
                                FieldRow{"/num_key_value_heads", "num_kv_heads"},
                                FieldRow{"/position/rotary_fraction", "rotary_pct"},
                                FieldRow{"/position/rotary_fraction", "partial_rotary_factor"},
                                FieldRow{"/position/buckets", "relative_attention_num_buckets"},
                                FieldRow{"/token_type_rows", "type_vocab_size"},
                                FieldRow{"/moe/num_experts", "num_experts"},
                                FieldRow{"/moe/num_experts", "num_local_experts"},
                                FieldRow{"/moe/num_experts", "n_routed_experts"},
                                FieldRow{"/moe/experts_per_token", "num_experts_per_tok"},
                                FieldRow{"/moe/moe_intermediate_size", "moe_intermediate_size"},
                                FieldRow{"/moe/num_shared_experts", "n_shared_experts"},
                                FieldRow{"/moe/shared_expert_intermediate_size", "shared_expert_intermediate_size"},
                                FieldRow{"/moe/first_k_dense_replace", "first_k_dense_replace"},
                                FieldRow{"/mla/q_lora_rank", "q_lora_rank"},
                                FieldRow{"/mla/kv_lora_rank", "kv_lora_rank"},
                                FieldRow{"/mla/qk_nope_head_dim", "qk_nope_head_dim"},
                                FieldRow{"/mla/qk_rope_head_dim", "qk_rope_head_dim"},
                                FieldRow{"/mla/v_head_dim", "v_head_dim"}};

/// The file as the config.json it was taken from. Its `config` object has the last word.
json hf_config_of(const json& content, Fields& fields) {
  json config{{"architectures", {fields.text("architecture")}}, {"_name_or_path", fields.text("id")}};
  for (const char* key : kSameFields)
    if (content.contains(key)) config[key] = content[key];
  for (const FieldRow& row : kFieldRows) {
    const json::json_pointer pointer(row.pointer);
    if (content.contains(pointer)) config[row.key] = content[pointer];
  }
  config["sliding_window"] = content.value("sliding_window", json());  // null: no window, whatever the class default
  auto bias = fields.optional_fields("bias");
  const auto has_bias = [&](const char* key) { return bias && bias->optional_flag(key).value_or(false); };
  config["attention_bias"] = has_bias("qkv") && has_bias("o");
  config["mlp_bias"] = has_bias("mlp");
  config.update(content.value("config", json::object()));
  return config;
}

/// Gives what a reader should know about the count.
std::vector<std::string> notes_of(Fields& fields, const ModelSpec& spec) {
  std::vector<std::string> notes;
  const std::string scope = fields.optional_text("scope").value_or("full model");
  if (scope != "full model") notes.push_back(fmt::format("{}: {}", spec.name, scope));
  if (const auto note = fields.optional_text("note"); note && !note->empty())
    notes.push_back(fmt::format("{}: {}", spec.name, *note));
  const std::int64_t computed = list_weights(spec).total_elements();
  if (computed != spec.recorded_parameters)
    notes.push_back(fmt::format("{}: {} parameters are computed, {} are recorded", spec.name, format_grouped(computed),
                                format_grouped(*spec.recorded_parameters)));
  return notes;
}

}  // namespace

bool is_catalogue_file(const json& content) {
  return content.is_object() && content.contains("architecture") && content.contains("total_params");
}

CatalogueEntry read_catalogue_row(Fields& fields, const std::filesystem::path& file, const char* count_key) {
  CatalogueEntry entry = catalogue_row(fields, count_key);
  entry.file = file;
  if (entry.name != file.stem()) fields.report("name", fmt::format("'{}' must be the file's name", entry.name));
  fields.finish();
  return entry;
}

LoadedModel read_catalogue_file(const std::filesystem::path& file) {
  const json content = read_json_file(file);
  Fields fields(content, file.string());
  const CatalogueEntry entry = read_catalogue_row(fields, file, "total_params");
  LoadedModel loaded{.spec = parse_hf_config(hf_config_of(content, fields), file.string()), .notes = {}};
  loaded.spec.name = entry.name;
  loaded.spec.source = "data/models/" + file.filename().string();
  loaded.spec.recorded_parameters = entry.parameters;
  loaded.notes = notes_of(fields, loaded.spec);
  fields.finish();
  return loaded;
}

}  // namespace gpuplan
