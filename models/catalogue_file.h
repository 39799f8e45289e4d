// One file of data/models: a model's shape under the names of a Hugging Face config, with its recorded counts and
// their sources.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "models/model_spec.h"

namespace gpuplan {

class Fields;

/// A row of `gpuplan models`.
struct CatalogueEntry {
  std::string name, id, family, model_type, architecture;
  std::int64_t parameters{};              // recorded count
  std::vector<std::string> same_shape{};  // hub ids of other models with these tensors
  bool is_modelled{};                     // false: refused by name ("not modelled yet")
  std::filesystem::path file;
};

/// A model and what was learnt while reading it.
struct LoadedModel {
  ModelSpec spec;
  std::vector<std::string> notes;  // one line each: "llama3-8b is meta-llama/Meta-Llama-3-8B", tensor differences …
};

/// The short rows of every file, read instead of them at start-up. A test compares the two.
inline constexpr const char* kIndexFile = "index.json";

/// Says whether `content` is such a file, and not a config.json.
bool is_catalogue_file(const nlohmann::json& content);

/// The row of a file, from the file itself or from the index; `count_key` holds the parameters.
CatalogueEntry read_catalogue_row(Fields& fields, const std::filesystem::path& file, const char* count_key);

/// The model of a file, with its recorded count. Throws InputError listing every bad field.
LoadedModel read_catalogue_file(const std::filesystem::path& file);

}  // namespace gpuplan
