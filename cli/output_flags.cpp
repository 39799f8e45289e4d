#include "cli/output_flags.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/files.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 9> kOutputFlags{"--output", "--metrics", "--trace",       "--save", "--html",
                                                       "--svg",    "--report",  "--save-ranges", "--job"};

struct NamedPath {
  std::string flag;
  fs::path path;
  bool is_output = false;
};

/// The same for paths that lead to the same file or folder, there or not yet; empty for devices and pipes.
std::string place_of(const fs::path& path) {
  if (is_written_in_place(path)) return {};
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) return fmt::format("{}:{}", status.st_dev, status.st_ino);
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(fs::absolute(follow_links(path), error), error);
  return error ? std::string() : whole.string();
}

fs::path folder_of(const fs::path& file) { return file.has_parent_path() ? file.parent_path() : fs::path("."); }

/// A file that makes its folder a model or an adapter.
bool is_of_model(const std::string& name) {
  constexpr std::array kFiles{"config.json",        "generation_config.json", "tokenizer.json",
                              "tokenizer.model",    "tokenizer_config.json",  "special_tokens_map.json",
                              "adapter_config.json"};
  return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json") ||
         std::ranges::find(kFiles, name) != kFiles.end();
}

/// Says whether `file` would be one of the files that `other` has, or will have, in its folder.
bool is_file_of(const fs::path& file, const NamedPath& other) {
  std::error_code error;
  if (!is_of_model(file.filename().string()) || (!other.is_output && !fs::exists(file, error))) return false;
  const std::string folder = place_of(folder_of(file));
  return folder == place_of(other.path) || folder == place_of(folder_of(other.path));
}

void require_apart(const NamedPath& output, const NamedPath& other) {
  constexpr const char* kHint = "what a command writes never replaces what it reads: give it a place of its own";
  std::error_code error;
  if (!other.is_output && !fs::exists(other.path, error)) return;  // a name of the catalogue, a number
  if (const std::string place = place_of(output.path); !place.empty() && place == place_of(other.path))
    throw InputError(output.flag, fmt::format("{} is also what {} names", output.path.string(), other.flag), kHint);
  if (is_file_of(output.path, other))
    throw InputError(output.flag, fmt::format("{} is a file of what {} names", output.path.string(), other.flag),
                     kHint);
}

}  // namespace

bool is_output_flag(std::string_view name) { return std::ranges::find(kOutputFlags, name) != kOutputFlags.end(); }

void require_outputs_apart(const CLI::App& app) {
  std::vector<NamedPath> all;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& value : option->results())
      if (option->get_items_expected_max() > 0 && !value.empty() && value != "-")
        all.push_back({option->get_name(), value, is_output_flag(option->get_name())});
  for (const NamedPath& output : all)
    for (const NamedPath& other : all)
      if (output.is_output && &output != &other) require_apart(output, other);
}

}  // namespace gpuplan
