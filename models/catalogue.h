// From what the user typed after --model to a ModelSpec: a short name of data/models, a Hugging Face config.json,
// or a model directory whose checkpoint headers are compared with the computed tensors.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "models/model_spec.h"

namespace gpuplan {

class Fields;

/// A row of `gpuplan models`.
struct CatalogueEntry {
  std::string name, id, family, model_type, architecture;
  std::int64_t parameters{};  // recorded count
  bool is_modelled{};         // false: refused by name ("not modelled yet")
  std::filesystem::path file;
};

/// A model and what was learnt while reading it.
struct LoadedModel {
  ModelSpec spec;
  std::vector<std::string> notes;  // one line each: "llama3-8b is meta-llama/Meta-Llama-3-8B", tensor differences …
};

/// Every entry of data/models, sorted by name. Throws EnvError when the folder is missing.
std::vector<CatalogueEntry> list_catalogue();

/// Reads `--model`. A path that exists wins over a name; a name is matched forgivingly (case, separators,
/// "meta-llama/",
/// "-hf", "llama2-7b" for llama-2-7b). Throws InputError with the nearest names for an unknown one, with "not modelled
/// yet" for a known family that has no builder, and for a checkpoint that differs by more than 2 %.
LoadedModel load_model(std::string_view text);

/// Reads a Hugging Face config.json. `where` names the file in errors. Throws InputError listing every bad field.
/// The same of an object in a file; problems are noted there.
ModelSpec read_hf_config(Fields& config);
ModelSpec parse_hf_config(const nlohmann::json& config, const std::string& where);

/// The model as a Hugging Face config (what plan.json stores under model.config); parse_hf_config reads it back.
nlohmann::json to_hf_config(const ModelSpec& model);

}  // namespace gpuplan
