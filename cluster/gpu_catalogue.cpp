#include "cluster/gpu_catalogue.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/yaml_file.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

/// Words that say who makes it, never which one it is.
constexpr std::array<std::string_view, 5> kMakerWords{"nvidia", "amd", "geforce", "instinct", "tesla"};

/// "NVIDIA GeForce RTX 4090 (24 GB)" and "rtx4090-24g" become "rtx409024gb".
std::string normalised(std::string_view text) {
  std::string name = squash(text);
  std::erase_if(name, [](char c) { return c == '(' || c == ')'; });
  for (std::string_view word : kMakerWords)
    if (const auto at = name.find(word); at != std::string::npos && name.size() > word.size())
      name.erase(at, word.size());
  const auto ends_in_unit = [&](std::string_view unit) {
    return name.size() > unit.size() && name.ends_with(unit) &&
           std::isdigit(static_cast<unsigned char>(name[name.size() - unit.size() - 1])) != 0;
  };
  if (ends_in_unit("gib")) name.replace(name.size() - 3, 3, "gb");
  if (ends_in_unit("g")) name += 'b';
  return name;
}

bool contains(const std::vector<std::string>& names, const std::string& wanted) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return normalised(name) == wanted; });
}

/// The alias of each GPU that is nearest to `text`, best first; those that `text` begins come alone.
std::vector<std::string> suggestions(const std::string& text, const std::vector<GpuNames>& all) {
  std::vector<std::string> names, begun;
  for (const GpuNames& gpu : all)
    for (const auto* list : {&gpu.aliases, &gpu.assumed_for}) names.insert(names.end(), list->begin(), list->end());
  const std::string wanted = normalised(text);
  for (const std::string& name : names)
    if (wanted.size() >= 2 && normalised(name).starts_with(wanted)) begun.push_back(name);
  std::vector<std::string> out;
  std::vector<const GpuNames*> shown;
  for (const std::string& name : nearest(wanted, begun.empty() ? names : begun, names.size())) {
    const auto owner = std::find_if(all.begin(), all.end(), [&](const GpuNames& gpu) {
      return contains(gpu.aliases, normalised(name)) || contains(gpu.assumed_for, normalised(name));
    });
    if (std::find(shown.begin(), shown.end(), &*owner) != shown.end()) continue;
    shown.push_back(&*owner);
    out.push_back(name);
    if (out.size() == 3) break;
  }
  return out;
}

std::string hint_for_unknown(const std::string& text, const std::vector<GpuNames>& all) {
  const auto near = suggestions(text, all);
  if (near.size() == 1) return fmt::format("did you mean '{}'?", near[0]);
  if (!near.empty()) return fmt::format("did you mean one of '{}'?", fmt::join(near, "', '"));
  std::vector<std::string> known;
  for (const GpuNames& gpu : all) known.push_back(gpu.aliases.front());
  return fmt::format("known are {}", fmt::join(known, ", "));
}

std::string list_candidates(const std::vector<const GpuNames*>& candidates) {
  std::vector<std::string> texts;
  for (const GpuNames* gpu : candidates)
    texts.push_back(
        fmt::format("'{}' ({}, {} GB, {})", gpu->aliases.front(), gpu->id, gpu->memory_gb, gpu->architecture));
  return fmt::format("write {}", fmt::join(texts, " or "));
}

GpuNames names_from_file(const fs::path& path) { return read_gpu_file(path).names; }

std::vector<GpuNames> read_index(const fs::path& path) {
  std::vector<GpuNames> all;
  YamlFile file = YamlFile::read(path);
  for (Fields& row : file.top().list("gpus")) {
    GpuNames names = read_gpu_names(row);
    names.memory_gb = row.integer("memory_gb");
    names.architecture = row.text("architecture");
    row.refuse_unknown();
    all.push_back(std::move(names));
  }
  file.finish();
  return all;
}

}  // namespace

fs::path gpu_path(const std::string& id) { return data_dir() / "gpus" / (id + ".yaml"); }

std::vector<GpuNames> list_gpu_names() {
  const fs::path folder = data_dir() / "gpus";
  std::vector<GpuNames> all;
  if (fs::exists(folder / "index.yaml")) all = read_index(folder / "index.yaml");
  std::erase_if(all, [&](const GpuNames& gpu) { return !fs::exists(gpu_path(gpu.id)); });
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string id = entry.path().stem().string();
    const auto is_it = [&](const GpuNames& gpu) { return gpu.id == id; };
    if (entry.path().extension() == ".yaml" && id != "index" && std::none_of(all.begin(), all.end(), is_it))
      all.push_back(names_from_file(entry.path()));
  }
  std::sort(all.begin(), all.end(), [](const GpuNames& a, const GpuNames& b) { return a.id < b.id; });
  return all;
}

GpuChoice resolve_gpu(const std::string& text) {
  static const std::vector<GpuNames> all = list_gpu_names();  // a list of GPUs asks for each
  const std::string wanted = normalised(text);
  std::vector<const GpuNames*> candidates;
  for (const GpuNames& gpu : all) {
    if (normalised(gpu.id) == wanted || contains(gpu.aliases, wanted)) return {gpu.id, {}};
    if (contains(gpu.assumed_for, wanted)) return {gpu.id, fmt::format("{} means {}", trim(text), gpu.id)};
    if (contains(gpu.ambiguous, wanted)) candidates.push_back(&gpu);
  }
  if (!candidates.empty())
    throw InputError("", fmt::format("'{}' may be several GPUs", trim(text)), list_candidates(candidates));
  throw InputError("", fmt::format("unknown GPU '{}'", trim(text)), hint_for_unknown(text, all));
}

std::string render_gpu_index(const std::vector<GpuNames>& all) {
  std::string out =
      "# Names of the GPUs, so that one can be found without reading every file; a file that is not listed is read\n"
      "# directly. Written by: GPUPLAN_UPDATE_GOLDEN=1 ./tests/test_cluster -tc='*index*'\n"
      "gpus:\n";
  for (const GpuNames& gpu : all) {
    out += fmt::format("- {{id: {}, memory_gb: {}, architecture: {}", gpu.id, gpu.memory_gb, gpu.architecture);
    const auto add = [&](const char* key, const std::vector<std::string>& names) {
      if (!names.empty()) out += fmt::format(", {}: [\"{}\"]", key, fmt::join(names, "\", \""));
    };
    add("aliases", gpu.aliases);
    add("assumed_for", gpu.assumed_for);
    add("ambiguous", gpu.ambiguous);
    out += "}\n";
  }
  return out;
}

GpuSpec find_gpu(const std::string& text, std::string* assumption) {
  const GpuChoice choice = resolve_gpu(text);
  GpuSpec gpu = read_gpu_file(gpu_path(choice.id)).spec;
  if (assumption) *assumption = choice.assumption.empty() ? "" : fmt::format("{} ({})", choice.assumption, gpu.name);
  return gpu;
}

std::vector<GpuSpec> list_gpus() {
  std::vector<GpuSpec> out;
  for (const GpuNames& names : list_gpu_names()) out.push_back(read_gpu_file(gpu_path(names.id)).spec);
  return out;
}

std::vector<GpuPrice> list_prices(const std::string& gpu_id) {
  return read_gpu_file(gpu_path(resolve_gpu(gpu_id).id)).prices;
}

}  // namespace gpuplan
