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
#include "cli/arguments.h"
#include "models/safetensors.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 9> kOutputFlags{"--output", "--metrics", "--trace",       "--save", "--html",
                                                       "--svg",    "--report",  "--save-ranges", "--job"};

/// What each output file begins with or holds early, by which it is known again.
struct OutputMark {
  std::string_view flag, mark, is;
};
constexpr std::array kMarks{OutputMark{"--save", "\"gpuplan_version\"", "a plan of gpuplan"},
                            OutputMark{"--trace", "\"gpuplan_version\"", "a timeline of gpuplan"},
                            OutputMark{"--html", "<meta name=\"generator\" content=\"gpuplan ", "a page of gpuplan"},
                            OutputMark{"--svg", "class=\"gptopo\"", "a picture of gpuplan"},
                            OutputMark{"--report", "Written by `gpuplan validate", "a report of gpuplan validate"},
                            OutputMark{"--save-ranges", "Written by gpuplan validate --save-ranges",
                                       "a file of gpuplan validate --save-ranges"}};

bool has_mark(const fs::path& file, std::string_view mark) {
  constexpr std::int64_t kEnough = 64 << 10;  // bytes; a plan, whose keys are sorted, is smaller
  return InputFile(file).read(0, kEnough).find(mark) != std::string::npos;
}

/// A file of a model in `folder` that gpuplan did not write, so that no run may put its own in its place; empty where
/// there is none. Configurations are copies: they are ours beside weights or checkpoints of ours.
std::string file_of_other_model(const fs::path& folder) {
  std::string weights, config;
  bool has_ours = false;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(folder, error)) {
    const std::string name = item.path().filename().string();
    if (item.is_directory(error)) has_ours |= name.starts_with("checkpoint-");
    if (!item.is_regular_file(error)) continue;
    if (name == "config.json" || name == "adapter_config.json") config = name;
    if (!name.ends_with(".safetensors") && !name.starts_with("pytorch_model")) continue;
    if (has_mark(item.path(), kMadeByGpuplan))
      has_ours = true;
    else
      weights = name;
  }
  return !weights.empty() ? weights : has_ours ? std::string() : config;
}

/// `run --output`, but for other engines, whose trainers write there as they do.
void require_own_model(const CLI::App& app) {
  const auto folder = given(app, "--output");
  const std::string engine = given(app, "--engine").value_or("native");
  if (app.get_name() != "run" || !folder || engine != "native") return;
  if (const std::string file = file_of_other_model(*folder); !file.empty())
    throw InputError("--output", fmt::format("{} holds {} of a model that gpuplan did not write", *folder, file),
                     "name another folder; --force replaces it");
}

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

void add_force_flag(CLI::App& app) { add_flag(app, "--force", "", "replace files that gpuplan did not write"); }

void require_own_outputs(const CLI::App& app) {
  const bool is_forced = is_given(app, "--force");
  bool has_output = app.get_option_no_throw("--job") != nullptr;  // which has a usual folder
  for (const CLI::Option* option : app.get_options())
    has_output |= is_output_flag(option->get_name()) && option->count() > 0;
  if (is_forced && !has_output)
    throw InputError("--force", "has nothing to replace", "it needs a flag that names a file");
  if (is_forced) return;
  require_own_model(app);
  for (const OutputMark& output : kMarks) {
    const auto path = given(app, std::string(output.flag));
    std::error_code error;
    if (!path || is_written_in_place(*path) || !fs::is_regular_file(*path, error) || fs::is_empty(*path, error))
      continue;
    if (!has_mark(*path, output.mark))
      throw InputError(std::string(output.flag), fmt::format("{} is there already, and is not {}", *path, output.is),
                       "name another file; --force replaces it");
  }
}

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
