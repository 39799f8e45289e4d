// Writing safetensors files. Sources: safetensors (serialize: order by dtype and name, header padded to 8 bytes);
// huggingface_hub, split_state_dict_into_shards_factory (shards in the order of the model, names, index).
#include <algorithm>
#include <array>
#include <memory>
#include <regex>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "rows/file_access.h"
#include "run/files/tensor_files.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

struct DtypeTag {
  Dtype dtype;
  std::string_view name;
};
// In the order of safetensors' enum, by which it sorts, last first.
constexpr std::array kDtypeTags{
    DtypeTag{Dtype::Bool, "BOOL"},      DtypeTag{Dtype::U8, "U8"},          DtypeTag{Dtype::I8, "I8"},
    DtypeTag{Dtype::F8E5M2, "F8_E5M2"}, DtypeTag{Dtype::F8E4M3, "F8_E4M3"}, DtypeTag{Dtype::I16, "I16"},
    DtypeTag{Dtype::F16, "F16"},        DtypeTag{Dtype::BF16, "BF16"},      DtypeTag{Dtype::I32, "I32"},
    DtypeTag{Dtype::F32, "F32"},        DtypeTag{Dtype::F64, "F64"},        DtypeTag{Dtype::I64, "I64"}};

auto tag_of(Dtype dtype) { return std::ranges::find(kDtypeTags, dtype, &DtypeTag::dtype); }

using Shard = std::vector<const TensorToWrite*>;

std::int64_t total_bytes(const Shard& shard) {
  std::int64_t total = 0;
  for (const TensorToWrite* tensor : shard) total += tensor->bytes();
  return total;
}

/// Shards in the given order; a tensor that is larger than a shard gets one of its own.
std::vector<Shard> cut_into_shards(const std::vector<TensorToWrite>& tensors, std::int64_t shard_bytes) {
  std::vector<Shard> shards;
  Shard current;
  for (const TensorToWrite& tensor : tensors) {
    if (tensor.bytes() > shard_bytes) {
      shards.push_back({&tensor});
      continue;
    }
    if (!current.empty() && total_bytes(current) + tensor.bytes() > shard_bytes)
      shards.push_back(std::exchange(current, {}));
    current.push_back(&tensor);
  }
  if (!current.empty() || shards.empty()) shards.push_back(std::move(current));
  return shards;
}

void sort_as_safetensors(Shard& shard) {
  std::ranges::sort(shard, [](const TensorToWrite* a, const TensorToWrite* b) {
    return std::pair(tag_of(b->dtype), std::string_view(a->name)) <
           std::pair(tag_of(a->dtype), std::string_view(b->name));
  });
}

/// The header with its length before it. Keys in the order of the data.
std::string header_of(const Shard& shard) {
  nlohmann::ordered_json header{{"__metadata__", {{"format", "pt"}, {"made_by", "gpuplan"}}}};  // kMadeByGpuplan
  std::int64_t end = 0;
  for (const TensorToWrite* tensor : shard) {
    const std::int64_t begin = std::exchange(end, end + tensor->bytes());
    header[tensor->name] = {
        {"dtype", tag_of(tensor->dtype)->name}, {"shape", tensor->shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  for (int i = 0; i < 8; ++i) length[std::size_t(i)] = char((text.size() >> (8 * i)) & 0xff);
  return length + text;
}

void write_bytes(const TensorToWrite& tensor, NewFile& file) {
  if (!tensor.read) return file.write(tensor.data);
  std::int64_t written = 0;
  tensor.read([&](std::span<const std::byte> piece) { file.write(piece), written += std::ssize(piece); });
  GPUPLAN_CHECK(written == tensor.bytes(), "a tensor hands out as many bytes as its shape has");
}

std::unique_ptr<NewFile> write_shard(const fs::path& path, Shard shard) {
  sort_as_safetensors(shard);
  const std::string header = header_of(shard);
  auto file = std::make_unique<NewFile>(path, std::int64_t(header.size()) + total_bytes(shard));
  file->write(std::as_bytes(std::span(header)));
  for (const TensorToWrite* tensor : shard) write_bytes(*tensor, *file);
  file->sync();
  return file;
}

std::vector<std::string> shard_names(const std::string& stem, std::size_t count) {
  if (count == 1) return {stem + ".safetensors"};
  std::vector<std::string> names;
  for (std::size_t i = 1; i <= count; ++i)
    names.push_back(fmt::format("{}-{:05}-of-{:05}.safetensors", stem, i, count));
  return names;
}

std::string index_text(const std::vector<Shard>& shards, const std::vector<std::string>& names) {
  nlohmann::json map;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const TensorToWrite* tensor : shards[i]) map[tensor->name] = names[i];
    total += total_bytes(shards[i]);
  }
  return nlohmann::json{{"metadata", {{"total_size", total}}}, {"weight_map", map}}.dump(2) + "\n";
}

/// Removes files of an earlier model of another size: readers would take them, or mix them in.
void remove_stale(const fs::path& folder, const std::string& stem, const std::vector<std::string>& names) {
  const std::set<std::string> written(names.begin(), names.end());
  static const std::regex ending(R"((-\d{5}-of-\d{5})?\.safetensors)");
  for (const std::string& name : names_in(folder))
    if (name.starts_with(stem) && !written.contains(name) && std::regex_match(name.substr(stem.size()), ending))
      remove_file(folder / name);
}

void publish(const fs::path& folder, const std::string& stem, const std::vector<Shard>& shards,
             const std::vector<std::string>& names, const std::vector<std::unique_ptr<NewFile>>& files) {
  const fs::path index = folder / (stem + ".safetensors.index.json");
  // What says which files belong together goes first and comes last: in between there is no model rather than parts of
  // two, also on the disk.
  bool is_removed = shards.size() > 1 && fs::remove(folder / (stem + ".safetensors"));
  is_removed = fs::remove(index) || is_removed;
  if (is_removed) sync_path(folder);
  for (const auto& file : files) file->publish();
  if (shards.size() > 1) {
    sync_path(folder);
    write_file_atomically(index, index_text(shards, names));
  }
  remove_stale(folder, stem, names);
  sync_path(folder);
}

}  // namespace

std::int64_t TensorToWrite::bytes() const {
  std::int64_t bytes = size_of(dtype);
  for (const std::int64_t extent : shape) bytes *= extent;
  return bytes;
}

void write_tensors(const fs::path& folder, const std::string& stem, const std::vector<TensorToWrite>& tensors,
                   std::int64_t shard_bytes) {
  for (const TensorToWrite& tensor : tensors)
    GPUPLAN_CHECK(tensor.read || std::ssize(tensor.data) == tensor.bytes(),
                  "a tensor's data has the size of its shape");
  const std::vector<Shard> shards = cut_into_shards(tensors, shard_bytes);
  const std::vector<std::string> names = shard_names(stem, shards.size());
  std::vector<std::unique_ptr<NewFile>> files;
  try {
    for (std::size_t i = 0; i < shards.size(); ++i) files.push_back(write_shard(folder / names[i], shards[i]));
    publish(folder, stem, shards, names, files);
  } catch (const fs::filesystem_error& error) {
    throw EnvError(fmt::format("{}: cannot be written: {}", folder.string(), error.what()));
  }
}

}  // namespace gpuplan
