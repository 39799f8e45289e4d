// One file of data/models: a model's shape under the names of a Hugging Face config, with its recorded counts and
// their sources.
#pragma once

#include <filesystem>

#include <nlohmann/json_fwd.hpp>

#include "models/catalogue.h"

namespace gpuplan {

/// The short rows of every file, read instead of them at start-up. A test compares the two.
inline constexpr const char* kIndexFile = "index.json";

/// Whether `content` is such a file, and not a config.json.
bool is_catalogue_file(const nlohmann::json& content);

/// The row of a file, from the file itself or from the index; `count_key` holds the parameters.
CatalogueEntry read_catalogue_row(const nlohmann::json& content, const std::filesystem::path& file,
                                  const char* count_key);

/// The model of a file, with its recorded count. Throws InputError listing every bad field.
LoadedModel read_catalogue_file(const std::filesystem::path& file);

}  // namespace gpuplan
