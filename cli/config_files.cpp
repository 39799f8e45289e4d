#include "cli/config_files.h"

#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "cli/arguments.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

/// A file that another one names: as it stands, beside that one, or below a folder above it: scripts are started in
/// the root of their repository.
std::optional<ConfigFile> find_named(const std::string& named, const std::string& by) {
  constexpr int kFoldersAbove = 6;
  const fs::path folder = fs::path(by).parent_path();
  std::vector<fs::path> places{named, folder / named, folder / fs::path(named).filename()};
  for (fs::path above = folder; places.size() < 3 + kFoldersAbove && !above.empty(); above = above.parent_path()) {
    if (above == above.parent_path()) break;
    places.push_back(above.parent_path() / named);
  }
  for (const fs::path& path : places)
    if (is_file(path)) return ConfigFile{path.string(), read_file(path, kLogLimit)};
  return std::nullopt;
}

/// "4xA6000", and not "A6000".
bool says_how_many(const std::string& gpus) {
  const std::size_t end = gpus.find_first_not_of("0123456789");
  return end != std::string::npos && end > 0 && gpus[end] == 'x';
}

}  // namespace

void add_config_flag(CLI::App& app) {
  add_flag(
      app, "--from", "FILE",
      "a configuration of accelerate, DeepSpeed, transformers, TRL, axolotl, LLaMA-Factory or torchtune, PEFT's "
      "adapter_config.json, a plan, or a log with PyTorch's out-of-memory message; may be repeated. Flags override it. "
      "--deepspeed FILE is the same")
      ->expected(1, 1 << 30)
      ->allow_extra_args(false);
}

std::optional<ConfigReading> given_configs(const CLI::App& app) {
  const std::vector<std::string> names = all_given(app, "--from");
  if (names.empty()) return std::nullopt;
  std::vector<ConfigFile> files;
  for (const std::string& name : names) files.push_back({name, read_file(name, kLogLimit)});
  return read_configs(files, find_named);
}

void settle_configs(const CLI::App& app, const ConfigReading& configs, EstimateRequest& request,
                    std::vector<std::string>& notes) {
  const auto& processes = configs.setup.num_processes ? configs.setup.num_processes : configs.setup.visible_gpus;
  const auto gpus = given(app, "--gpus");
  const bool is_open = !gpus || !(says_how_many(*gpus) || is_given(app, "--num-gpus"));
  if (is_open && request.cluster.num_gpus() == 1 && processes && *processes > 1 && !request.cluster.is_mixed()) {
    request.cluster = resized(request.cluster, *processes);
    notes.push_back(fmt::format("{} GPUs, as many as the files start processes", *processes));
  }
  if (!is_given(app, "--train-vision")) settle_vision(configs, request);
  if (request.cluster.gpus.empty()) return;
  if (!is_given(app, "--strategy")) settle_strategy(configs, request, notes);
}

}  // namespace gpuplan
