// The files of data/ as the build parsed them, inside the program: a start takes values from it instead of texts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace gpuplan {

struct ValueTree;

/// Rules that a file was parsed by: base/json_file.h, base/yaml_file.h.
enum class DataFormat : std::uint32_t { Json, Yaml, Yaml11 };

/// Parses every JSON and YAML file below `folder` into an archive: an index sorted by path, and the values and places
/// of each file as MessagePack. Throws InputError for a file that is neither. For the build (cmake/pack_data.cpp).
std::string pack_data(const std::filesystem::path& folder);

/// Takes files below data_dir() from `archive` from now on, which must outlive all questions, unless $GPUPLAN_DATA_DIR
/// names another folder.
void use_data_archive(std::string_view archive);
/// The paths in it, from data_dir() on, sorted.
std::vector<std::string> packed_paths();

/// The values of a file below data_dir() as MessagePack; nothing where its text is to be read.
std::optional<std::string_view> packed_bytes(const std::filesystem::path& path, DataFormat format);
/// The values of a JSON file below data_dir(); nothing where its text is to be read.
std::optional<nlohmann::json> packed_json(const std::filesystem::path& path);
/// The same of a YAML file, with a place for each value.
std::shared_ptr<ValueTree> packed_yaml(const std::filesystem::path& path, DataFormat format);
/// Returns the SHA-256 of its text.
std::string sha256_of_data(const std::filesystem::path& path, DataFormat format);
/// A JSON file below data_dir() for Fields, which look for unknown keys where it was read from the disk.
std::shared_ptr<ValueTree> shipped_json(const std::filesystem::path& path);

}  // namespace gpuplan
