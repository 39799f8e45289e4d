#include "models/checkpoint_tensors.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json_file.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kShardIndex = "model.safetensors.index.json";

/// Which tensors each shard holds.
using ShardMap = std::map<std::string, std::vector<std::string>>;

bool is_file_name(const std::string& name) {
  return !name.empty() && name.find("..") == std::string::npos && !fs::path(name).is_absolute();
}

/// A name that no file can have (too long, a NUL in it) is one that is not there.
bool is_there(const fs::path& file) {
  std::error_code error;
  return fs::exists(file, error);
}

ShardMap read_weight_map(const json& index, const std::string& where) {
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object() || map->empty())
    throw InputError(where, "weight_map: must be an object that gives the file of each tensor");
  ShardMap shards;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || !is_file_name(file.get<std::string>()))
      throw InputError(where, fmt::format("weight_map.{}: must be a file name, found {}", tensor, file.dump()));
    shards[file.get<std::string>()].push_back(tensor);
  }
  return shards;
}

/// metadata.total_size is a whole number as a rule, but a float or a text in some files.
std::optional<double> read_total_size(const json& index) {
  const auto metadata = index.find("metadata");
  if (metadata == index.end() || !metadata->is_object()) return std::nullopt;
  const json size = metadata->value("total_size", json());
  if (size.is_number()) return size.get<double>();
  if (size.is_string()) return std::strtod(size.get<std::string>().c_str(), nullptr);
  return std::nullopt;
}

Checkpoint names_only(const ShardMap& shards) {
  Checkpoint checkpoint{.has_shapes = false};
  for (const auto& [file, tensors] : shards)
    for (const std::string& name : tensors) checkpoint.tensors.push_back({.name = name});
  return checkpoint;
}

void check_shard(const fs::path& shard, const std::vector<SafetensorsTensor>& found,
                 const std::vector<std::string>& listed) {
  std::set<std::string_view> names;
  for (const SafetensorsTensor& tensor : found) names.insert(tensor.name);
  for (const std::string& name : listed)
    if (!names.contains(name))
      throw InputError(shard.string(), fmt::format("lacks the tensor '{}' that {} lists here", name, kShardIndex));
}

void append(Checkpoint& checkpoint, const fs::path& file, std::vector<SafetensorsTensor> tensors) {
  checkpoint.files.insert(checkpoint.files.end(), tensors.size(), file);
  checkpoint.tensors.insert(checkpoint.tensors.end(), std::make_move_iterator(tensors.begin()),
                            std::make_move_iterator(tensors.end()));
}

Checkpoint read_shards(const fs::path& folder) {
  const fs::path file = folder / kShardIndex;
  const json index = read_json_file(file);
  const ShardMap shards = read_weight_map(index, file.string());
  std::vector<std::string> missing;
  for (const auto& [shard, tensors] : shards)
    if (!is_there(folder / shard)) missing.push_back(shard);
  Checkpoint checkpoint;
  if (missing.size() == shards.size())
    checkpoint = names_only(shards);
  else if (!missing.empty())
    throw InputError(
        file.string(),
        fmt::format("{} of {} shards are missing: {}", missing.size(), shards.size(), fmt::join(missing, ", ")),
        "download them, or plan from config.json alone");
  else
    for (const auto& [shard, listed] : shards) {
      auto tensors = read_safetensors_header(folder / shard);
      check_shard(folder / shard, tensors, listed);
      append(checkpoint, folder / shard, std::move(tensors));
    }
  checkpoint.total_bytes = read_total_size(index);
  return checkpoint;
}

/// Files without an index; adapters and Mistral's second copy ("consolidated") are not the model.
std::vector<fs::path> loose_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& item : fs::directory_iterator(folder)) {
    const std::string name = item.path().filename().string();
    if (name.ends_with(".safetensors") && !name.starts_with("adapter_") && !name.starts_with("consolidated"))
      files.push_back(item.path());
  }
  std::ranges::sort(files);
  return files;
}

void check_unique(const Checkpoint& checkpoint, const fs::path& folder) {
  std::set<std::string_view> names;
  for (const SafetensorsTensor& tensor : checkpoint.tensors)
    if (!names.insert(tensor.name).second)
      throw InputError(folder.string(), fmt::format("the tensor '{}' is in two safetensors files", tensor.name));
}

}  // namespace

std::optional<Checkpoint> read_checkpoint(const fs::path& folder) {
  Checkpoint checkpoint;
  if (fs::exists(folder / kSingleFile))
    append(checkpoint, folder / kSingleFile, read_safetensors_header(folder / kSingleFile));
  else if (fs::exists(folder / kShardIndex))
    checkpoint = read_shards(folder);
  else
    for (const fs::path& file : loose_files(folder)) append(checkpoint, file, read_safetensors_header(file));
  check_unique(checkpoint, folder);
  if (checkpoint.tensors.empty()) return std::nullopt;
  return checkpoint;
}

}  // namespace gpuplan
