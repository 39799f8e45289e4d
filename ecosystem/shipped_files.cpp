#include "ecosystem/shipped_files.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/surroundings.h"
#include "base/value_tree.h"
#include "base/yaml_file.h"

namespace gpuplan {
namespace {

std::vector<ShippedFile> read_shipped_files() {
  const std::string where = (data_dir() / "ecosystem" / "shipped_files.yaml").string();
  const auto tree = read_yaml11(where);
  std::vector<ShippedFile> files;
  try {
    for (const nlohmann::json& group : tree->root.at("programs"))
      for (const std::string format : group.at("formats"))
        for (const auto& [stem, settings] : group.at("files").items())
          files.push_back({.format = format,
                           .stem = stem,
                           .text = settings.dump(),
                           .source = group.at("source"),
                           .named = fmt::format(fmt::runtime(group.value("named", "")), stem),
                           .brought_by = group.value("brought_by", "")});
  } catch (const nlohmann::json::exception& error) { throw InputError(where, error.what()); }
  return files;
}

}  // namespace

std::span<const ShippedFile> shipped_files() { return read_once<read_shipped_files>(); }

const ShippedFile* find_shipped_file(std::string_view format, const std::string& path) {
  std::string stem = path;
  for (const char* ending : {".json", ".yaml", ".yml", ".conf"})
    if (stem.ends_with(ending)) stem.resize(stem.size() - std::string_view(ending).size());
  const auto files = shipped_files();
  const auto found = std::find_if(files.begin(), files.end(), [&](const ShippedFile& file) {
    return file.format == format && (file.stem == stem || stem.ends_with("/" + file.stem));
  });
  return found == files.end() ? nullptr : &*found;
}

}  // namespace gpuplan
