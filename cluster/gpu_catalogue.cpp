#include "cluster/gpu_catalogue.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <unordered_map>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/packed_fields.h"
#include "base/surroundings.h"
#include "base/user_folders.h"
#include "base/yaml_file.h"
#include "cluster/gpu_spelling.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

bool contains(const std::vector<std::string>& names, const std::string& wanted) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return plain_gpu_name(name) == wanted; });
}

/// The alias of each GPU that may be meant by `text`, nearest first.
std::vector<std::string> suggestions(const std::string& text, const std::vector<GpuNames>& all) {
  const std::string wanted = plain_gpu_name(text);
  const bool is_number_open =
      wanted.find_first_of("0123456789") == std::string::npos && wanted.size() >= 2;  // "TITAN", "RTX"
  std::vector<std::string> names;
  for (const GpuNames& gpu : all)
    for (const auto* list : {&gpu.aliases, &gpu.assumed_for})
      for (const std::string& name : *list)
        if (may_be_slip(wanted, plain_gpu_name(name)) || (is_number_open && plain_gpu_name(name).starts_with(wanted)))
          names.push_back(name);
  std::vector<std::string> out;
  std::vector<const GpuNames*> shown;
  for (const std::string& name : nearest(wanted, names, names.size())) {
    const auto owner = std::find_if(all.begin(), all.end(), [&](const GpuNames& gpu) {
      return contains(gpu.aliases, plain_gpu_name(name)) || contains(gpu.assumed_for, plain_gpu_name(name));
    });
    if (std::find(shown.begin(), shown.end(), &*owner) != shown.end()) continue;
    shown.push_back(&*owner);
    out.push_back(name);
    if (out.size() == 3) break;
  }
  return out;
}

/// Products that `base` names whatever their memory, by increasing memory: all A100 for "A100".
std::vector<const GpuNames*> of_any_memory(const std::string& base, const std::vector<GpuNames>& all) {
  const std::string wanted = plain_gpu_name(base);
  const auto names_it = [&](const std::string& name) {
    const auto inner = memory_in_name(name);
    return plain_gpu_name(name) == wanted || (inner && plain_gpu_name(inner->base) == wanted);
  };
  std::vector<const GpuNames*> out;
  for (const GpuNames& gpu : all)
    if (std::ranges::any_of(std::array{&gpu.aliases, &gpu.assumed_for, &gpu.ambiguous},
                            [&](const auto* list) { return std::ranges::any_of(*list, names_it); }))
      out.push_back(&gpu);
  std::ranges::stable_sort(out, {}, &GpuNames::memory_gb);
  return out;
}

/// "A100 is known with 40 or 80 GB" for an "A100-64"; empty when that is no name with memory.
std::string hint_for_memory(const std::string& text, const std::vector<GpuNames>& all) {
  const auto named = memory_in_name(text);
  const auto family = named ? of_any_memory(named->base, all) : std::vector<const GpuNames*>{};
  if (family.empty()) return {};
  std::vector<std::string> sizes;
  for (const GpuNames* gpu : family)
    if (const std::string size = fmt::format("{}", gpu->memory_gb); sizes.empty() || sizes.back() != size)
      sizes.push_back(size);
  const std::string most = sizes.back();
  sizes.pop_back();
  const std::string known = sizes.empty() ? most : fmt::format("{} or {}", fmt::join(sizes, ", "), most);
  const std::string base = plain_gpu_name(named->base);
  const bool is_product = std::ranges::any_of(
      family, [&](const GpuNames* gpu) { return contains(gpu->aliases, base) || contains(gpu->assumed_for, base); });
  const std::string like = is_product ? named->base : family.front()->aliases.front();
  const std::string count = fmt::format("; {} of them are '{}x{}'", named->memory_gb, named->memory_gb, named->base);
  return fmt::format("{} is known with {} GB{}; a card with other memory is --gpus '{}' --gpu-spec '{}:{}GiB'",
                     named->base, known, named->has_unit ? "" : count, like, like, named->memory_gb);
}

std::string hint_for_unknown(const std::string& text, const std::vector<GpuNames>& all) {
  if (std::string hint = hint_for_memory(text, all); !hint.empty()) return hint;
  const auto near = suggestions(text, all);
  const std::string name = trim(text).empty() ? "my card" : std::string(trim(text));
  if (name.find('+') != std::string::npos) return "commas are between GPUs: 3060,4070";
  if (const std::size_t x = name.find('x'); x > 0 && x < 4 && name.find_first_not_of("0123456789") == x)
    if (const std::string card = name.substr(x + 1); known_gpu(card))
      return fmt::format("one number stands before the name, that of all GPUs: two machines of {} are {}x{}", name,
                         2 * std::stoi(name.substr(0, x)), card);
  const std::string described = fmt::format("--gpu-spec '{}:12GiB,360GB/s,25TFLOPS'", name);
  if (const std::string other = other_accelerator(name); !other.empty())
    return fmt::format(
        "gpuplan plans GPUs of NVIDIA and AMD, and {} are none; a card like them is described by {}, with its own "
        "figures, and planned with CUDA's kernels and NCCL",
        other, described);
  if (!near.empty())
    return fmt::format("did you mean {}'{}'? Another card is described by {}, with its own figures",
                       near.size() == 1 ? "" : "one of ", fmt::join(near, "', '"), described);
  return fmt::format(
      "describe it by {}, with its own memory, bandwidth and dense 16-bit rate, or in a file of "
      "~/.local/share/gpuplan/gpus; 'gpuplan gpus' lists what is known",
      described);
}

std::string list_candidates(const std::vector<const GpuNames*>& candidates) {
  std::vector<std::string> texts;
  for (const GpuNames* gpu : candidates)
    texts.push_back(
        fmt::format("'{}' ({}, {} GB, {})", gpu->aliases.front(), gpu->id, gpu->memory_gb, gpu->architecture));
  return fmt::format("write {}", fmt::join(texts, " or "));
}

GpuNames names_from_file(const fs::path& path) { return read_gpu_file(path).names; }

template <class Archive>
std::vector<GpuNames> read_index(Archive& index) {
  std::vector<GpuNames> all;
  for (auto& row : index.list("gpus")) {
    all.push_back({.id = row.text("id"),
                   .memory_gb = row.integer("memory_gb"),
                   .architecture = row.text("architecture"),
                   .aliases = row.texts("aliases"),
                   .assumed_for = row.texts("assumed_for"),
                   .ambiguous = row.texts("ambiguous")});
    row.refuse_unknown();
  }
  return all;
}

/// Reads the GPUs of a folder, by its index where they are in it.
std::vector<GpuNames> read_folder(const fs::path& folder) {
  const fs::path path = folder / "index.yaml";
  if (const auto packed = packed_bytes(path, DataFormat::Yaml)) {  // beside the files that it lists
    const std::string where = path.string();
    PackedFields index(PackedValue(*packed), where);
    return read_index(index);
  }
  std::vector<GpuNames> all;
  if (is_there(path)) {
    YamlFile file = YamlFile::read(path);
    all = read_index(file.top());
    file.finish();
  }
  std::set<std::string> names;  // a list of the folder: to look for every file takes longer
  for (const fs::path& file : files_in(folder, ".yaml")) names.insert(file.stem().string());
  names.erase("index");
  std::erase_if(all, [&](const GpuNames& gpu) { return names.erase(gpu.id) == 0; });
  for (const std::string& name : names) all.push_back(names_from_file(folder / (name + ".yaml")));
  return all;
}

}  // namespace

fs::path own_gpu_dir() { return user_data_dir() / "gpus"; }

fs::path gpu_path(const std::string& id) {
  const std::string file = id + ".yaml";
  const fs::path own = own_gpu_dir() / file;
  return is_there(own) ? own : data_dir() / "gpus" / file;
}

std::vector<GpuNames> list_gpu_names() {
  std::vector<GpuNames> all = read_folder(data_dir() / "gpus");
  for (const fs::path& file : files_in(own_gpu_dir(), ".yaml")) {
    GpuNames own = names_from_file(file);
    std::erase_if(all, [&](const GpuNames& gpu) { return gpu.id == own.id; });
    all.push_back(std::move(own));
  }
  std::ranges::sort(all, [](const GpuNames& a, const GpuNames& b) { return a.id < b.id; });
  return all;
}

namespace {

const std::vector<GpuNames>& all_names() {
  return read_once<list_gpu_names, StaysTrue::InQuestion>();  // a list of GPUs asks for each
}

/// The first GPU that a name means, and whether that is assumed.
struct Meaning {
  const GpuNames* gpu = nullptr;
  bool is_assumed = false;
};

/// Lists what names mean, by plain_gpu_name(): to squash all of them for each word would take a tenth of an answer.
std::unordered_map<std::string, Meaning> read_meanings() {
  std::unordered_map<std::string, Meaning> out;
  for (const GpuNames& gpu : all_names()) {
    out.try_emplace(plain_gpu_name(gpu.id), Meaning{&gpu});
    for (const std::string& name : gpu.aliases) out.try_emplace(plain_gpu_name(name), Meaning{&gpu});
    for (const std::string& name : gpu.assumed_for) out.try_emplace(plain_gpu_name(name), Meaning{&gpu, true});
  }
  return out;
}

}  // namespace

bool is_same_gpu_name(const std::string& a, const std::string& b) { return plain_gpu_name(a) == plain_gpu_name(b); }

std::vector<std::string> possible_gpus(const std::string& text) {
  const std::string wanted = plain_gpu_name(text);
  std::vector<std::string> out;
  for (const GpuNames& gpu : all_names()) {
    if (plain_gpu_name(gpu.id) == wanted || contains(gpu.aliases, wanted)) return {gpu.id};
    if (contains(gpu.assumed_for, wanted) || contains(gpu.ambiguous, wanted)) out.push_back(gpu.id);
  }
  return out;
}

std::string how_to_describe(const std::string& text) { return hint_for_unknown(text, all_names()); }

namespace {

std::optional<GpuChoice> named_gpu(const std::string& text, const std::string& wanted) {
  const auto& meanings = read_once<read_meanings, StaysTrue::InQuestion>();
  const auto found = meanings.find(wanted);
  if (found == meanings.end()) return std::nullopt;
  const std::string& id = found->second.gpu->id;
  return GpuChoice{id, found->second.is_assumed ? fmt::format("{} means {}", trim(text), id) : ""};
}

/// Products of a name with memory that is no alias: "4090-24GB" is the 4090, which has 24 GB.
std::vector<const GpuNames*> with_named_memory(const std::string& text) {
  const auto named = memory_in_name(text);
  if (!named) return {};
  auto family = of_any_memory(named->base, all_names());
  std::erase_if(family, [&](const GpuNames* gpu) { return gpu->memory_gb != named->memory_gb; });
  return family;
}

/// The product alone; known_gpu adds whose file describes it.
std::optional<GpuChoice> choose_gpu(const std::string& text) {
  if (auto choice = named_gpu(text, plain_gpu_name(text))) return choice;
  const auto named = memory_in_name(text);
  if (!named) return std::nullopt;
  if (auto choice = named_gpu(text, plain_gpu_name(named->full))) return choice;
  const auto family = with_named_memory(text);
  return family.size() == 1 ? std::optional(GpuChoice{family.front()->id, {}}) : std::nullopt;
}

}  // namespace

std::string read_instead_of_shipped(const std::string& id) {
  const fs::path shipped = data_dir() / "gpus" / (id + ".yaml"), used = gpu_path(id);
  if (used == shipped || !is_there(shipped)) return {};
  return fmt::format("{} is read from {}, not from the catalogue", id, used.string());
}

std::optional<GpuChoice> known_gpu(const std::string& text) {
  auto choice = choose_gpu(text);
  if (!choice) return std::nullopt;
  if (const std::string own = read_instead_of_shipped(choice->id); !own.empty())
    choice->assumption += (choice->assumption.empty() ? "" : "; ") + own;
  return choice;
}

GpuChoice resolve_gpu(const std::string& text) {
  if (auto choice = known_gpu(text)) return *std::move(choice);
  throw gpu_mistake(text);
}

InputError gpu_mistake(const std::string& text) {
  const std::vector<GpuNames>& all = all_names();
  const std::string wanted = plain_gpu_name(text);
  std::vector<const GpuNames*> candidates = with_named_memory(text);
  for (const GpuNames& gpu : all)
    if (contains(gpu.ambiguous, wanted)) candidates.push_back(&gpu);
  if (!candidates.empty())
    return {"", fmt::format("'{}' may be several GPUs", trim(text)), list_candidates(candidates)};
  return {"", fmt::format("unknown GPU '{}'", trim(text)), hint_for_unknown(text, all)};
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
