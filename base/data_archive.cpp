#include "base/data_archive.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json_file.h"
#include "base/message_pack.h"
#include "base/narrow.h"
#include "base/sha256.h"
#include "base/value_tree.h"
#include "base/yaml_file.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Place of a part of the archive.
struct Part {
  std::uint32_t begin = 0, size = 0;
};
struct IndexRow {
  Part path, values, places, sha256;
  DataFormat format{};
};

std::string_view all_packed;

std::string_view part_of(std::string_view archive, Part part) { return archive.substr(part.begin, part.size); }

std::uint32_t num_rows(std::string_view archive) {
  std::uint32_t count = 0;
  if (archive.size() >= sizeof count) std::memcpy(&count, archive.data(), sizeof count);
  return count;
}

IndexRow row_at(std::string_view archive, std::uint32_t i) {
  IndexRow row;
  std::memcpy(&row, archive.data() + sizeof i + i * sizeof row, sizeof row);
  return row;
}

std::optional<IndexRow> find_row(std::string_view archive, std::string_view path) {
  std::uint32_t first = 0, last = num_rows(archive);
  while (first < last) {
    const std::uint32_t middle = first + (last - first) / 2;
    const IndexRow row = row_at(archive, middle);
    const int order = part_of(archive, row.path).compare(path);
    if (order == 0) return row;
    (order < 0 ? first : last) = order < 0 ? middle + 1 : middle;
  }
  return std::nullopt;
}

/// The row of a file below data_dir() that is parsed by these rules.
std::optional<IndexRow> row_of(const fs::path& path, DataFormat format) {
  if (all_packed.empty() || variable("GPUPLAN_DATA_DIR") || !is_shipped(path)) return std::nullopt;
  const auto row = find_row(all_packed, path.lexically_relative(data_dir()).string());
  return row && row->format == format ? row : std::nullopt;
}

/// Four values of a list for each place, in the order of the file: how many bytes its key shares with the beginning of
/// the one before, the rest of the key, lines since the one before, and lines since its key. Keys are paths: written
/// out, they would be a third of the archive.
std::string packed_places(const ValueTree& tree) {
  std::vector<const std::pair<const std::string, ValueTree::Place>*> rows(tree.places.size());
  for (const auto& row : tree.places) rows.at(row.second.order) = &row;
  json::array_t values;
  std::string_view before;
  int line = 0;
  for (const auto* row : rows) {
    const std::string_view key = row->first;
    std::size_t shared = 0;
    while (shared < std::min(before.size(), key.size()) && before[shared] == key[shared]) ++shared;
    const ValueTree::Place& place = row->second;
    for (const json& value :
         {json(shared), json(key.substr(shared)), json(place.line - line), json(place.line - place.key_line)})
      values.push_back(value);
    before = key;
    line = place.line;
  }
  std::string out;
  json::to_msgpack(json(std::move(values)), out);
  return out;
}

/// Adds the places that packed_places() wrote.
void unpack_places(std::string_view packed, ValueTree& tree) {
  const json values = from_message_pack(packed);
  std::string key;
  int line = 0;
  for (std::size_t at = 0, order = 0; at < values.size(); at += 4) {
    key.resize(values[at].get<std::size_t>());
    key += values[at + 1].get_ref<const std::string&>();
    line += values[at + 2].get<int>();
    tree.places.insert_or_assign(key, ValueTree::Place{line, line - values[at + 3].get<int>(), order++, {}});
  }
}

struct PackedFile {
  std::string path, values, places, sha256;
  DataFormat format{};
};

PackedFile pack_file(const fs::path& file, const std::string& path) {
  const std::string text = read_file(file);
  PackedFile packed{.path = path, .values = {}, .places = {}, .sha256 = sha256_hex(text), .format = DataFormat::Json};
  if (file.extension() == ".json") {
    json::to_msgpack(parse_json(text, file.string()), packed.values);
    return packed;
  }
  // tables of other programs' keys hold values as those programs write them
  packed.format = path.starts_with("ecosystem/") ? DataFormat::Yaml11 : DataFormat::Yaml;
  const auto tree =
      packed.format == DataFormat::Yaml ? parse_yaml(text, file.string()) : parse_yaml11(text, file.string());
  tree->finish("");
  json::to_msgpack(tree->root, packed.values);
  packed.places = packed_places(*tree);
  return packed;
}

void pack_folder(const fs::path& folder, const std::string& prefix, std::vector<PackedFile>& files) {
  for (const std::string& name : names_in(folder)) {
    const fs::path path = folder / name;
    if (is_folder(path))
      pack_folder(path, prefix + name + "/", files);
    else if (path.extension() == ".json" || path.extension() == ".yaml")
      files.push_back(pack_file(path, prefix + name));
  }
}

}  // namespace

std::string pack_data(const fs::path& folder) {
  std::vector<PackedFile> files;
  pack_folder(folder, "", files);
  std::ranges::sort(files, [](const auto& a, const auto& b) { return a.path < b.path; });
  const auto count = narrow<std::uint32_t>(files.size());
  std::string index(sizeof count, '\0'), parts;
  std::memcpy(index.data(), &count, sizeof count);
  const auto add = [&](const std::string& text) {
    const Part part{narrow<std::uint32_t>(sizeof count + count * sizeof(IndexRow) + parts.size()),
                    narrow<std::uint32_t>(text.size())};
    parts += text;
    return part;
  };
  for (const PackedFile& file : files) {
    const IndexRow row{add(file.path), add(file.values), add(file.places), add(file.sha256), file.format};
    index.append(reinterpret_cast<const char*>(&row), sizeof row);
  }
  return index + parts;
}

void use_data_archive(std::string_view archive) { all_packed = archive; }

std::vector<std::string> packed_paths() {
  std::vector<std::string> paths;
  for (std::uint32_t i = 0; i < num_rows(all_packed); ++i)
    paths.emplace_back(part_of(all_packed, row_at(all_packed, i).path));
  return paths;
}

std::optional<std::string_view> packed_bytes(const fs::path& path, DataFormat format) {
  const auto row = row_of(path, format);
  return row ? std::optional(part_of(all_packed, row->values)) : std::nullopt;
}

std::optional<json> packed_json(const fs::path& path) {
  const auto bytes = packed_bytes(path, DataFormat::Json);
  return bytes ? std::optional(from_message_pack(*bytes)) : std::nullopt;
}

std::shared_ptr<ValueTree> packed_yaml(const fs::path& path, DataFormat format) {
  const auto row = row_of(path, format);
  if (!row) return nullptr;
  auto tree = std::make_shared<ValueTree>();
  tree->file = path.string();
  tree->format = FileFormat::Yaml;
  tree->is_checked = true;
  tree->root = from_message_pack(part_of(all_packed, row->values));
  tree->packed_places = part_of(all_packed, row->places);
  return tree;
}

std::shared_ptr<ValueTree> shipped_json(const fs::path& path) {
  auto packed = packed_json(path);
  auto tree = std::make_shared<ValueTree>();
  tree->file = path.string();
  tree->is_checked = packed.has_value();
  tree->root = packed ? *std::move(packed) : read_json_file(path);
  return tree;
}

std::string sha256_of_data(const fs::path& path, DataFormat format) {
  const auto row = row_of(path, format);
  return row ? std::string(part_of(all_packed, row->sha256)) : sha256_hex(read_file(path));
}

const ValueTree::Place* ValueTree::find_place(const std::string& key) {
  if (!packed_places.empty()) unpack_places(std::exchange(packed_places, {}), *this);
  const auto found = places.find(key);
  return found == places.end() ? nullptr : &found->second;
}

}  // namespace gpuplan
