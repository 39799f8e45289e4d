#include "cluster/gpu_catalogue.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/surroundings.h"
#include "base/user_folders.h"
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

std::string digits_of(const std::string& name) {
  std::string out;
  for (const char c : name)
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) out += c;
  return out;
}

/// Whether one character more, less or other, or another order of the same ones, turns `a` into `b`.
bool is_one_slip(const std::string& a, const std::string& b) {
  const std::string &shorter = a.size() < b.size() ? a : b, &longer = a.size() < b.size() ? b : a;
  const auto at = std::size_t(std::mismatch(shorter.begin(), shorter.end(), longer.begin()).first - shorter.begin());
  if (longer.size() == shorter.size())
    return shorter.compare(std::min(at + 1, shorter.size()), std::string::npos, longer,
                           std::min(at + 1, longer.size())) == 0 ||
           std::is_permutation(a.begin(), a.end(), b.begin());
  return longer.size() == shorter.size() + 1 &&
         shorter.compare(at, std::string::npos, longer, at + 1, std::string::npos) == 0;
}

/// The number names the product: a 3065 is no 3060, an H20 no H200. So a name is offered for another only when all
/// their digits are the same, one slip of a letter lies between them, and this letter is not the one in front that
/// names the family (a B100 is no H100, but a "RXT 4090" is an RTX 4090); or when nothing but the last digit of a
/// number of four or more is missing ("A600" for A6000). Both are normalised.
bool may_be_slip(const std::string& typed, const std::string& name) {
  constexpr std::size_t kWord = 3, kLongNumber = 3;
  const std::string typed_digits = digits_of(typed), digits = digits_of(name);
  if (!is_one_slip(typed, name)) return false;
  if (typed_digits != digits) return typed_digits.size() >= kLongNumber && digits.starts_with(typed_digits);
  const std::size_t typed_front = typed.find_first_of("0123456789"), front = name.find_first_of("0123456789");
  return typed.substr(0, typed_front) == name.substr(0, front) || (front >= kWord && typed_front >= kWord);
}

/// The alias of each GPU that may be meant by `text`, nearest first.
std::vector<std::string> suggestions(const std::string& text, const std::vector<GpuNames>& all) {
  const std::string wanted = normalised(text);
  const bool is_number_open = digits_of(wanted).empty() && wanted.size() >= 2;  // "TITAN", "RTX"
  std::vector<std::string> names;
  for (const GpuNames& gpu : all)
    for (const auto* list : {&gpu.aliases, &gpu.assumed_for})
      for (const std::string& name : *list)
        if (may_be_slip(wanted, normalised(name)) || (is_number_open && normalised(name).starts_with(wanted)))
          names.push_back(name);
  std::vector<std::string> out;
  std::vector<const GpuNames*> shown;
  for (const std::string& name : nearest(wanted, names, names.size())) {
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
  const std::string name = trim(text).empty() ? "my card" : std::string(trim(text));
  const std::string described = fmt::format("--gpu-spec '{}:12GiB,360GB/s,25TFLOPS'", name);
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

fs::path own_gpu_dir() { return user_data_dir() / "gpus"; }

fs::path gpu_path(const std::string& id) {
  const std::string file = id + ".yaml";
  const fs::path own = own_gpu_dir() / file;
  return is_there(own) ? own : data_dir() / "gpus" / file;
}

std::vector<GpuNames> list_gpu_names() {
  const fs::path folder = data_dir() / "gpus";
  std::vector<GpuNames> all;
  if (is_there(folder / "index.yaml")) all = read_index(folder / "index.yaml");
  std::erase_if(all, [&](const GpuNames& gpu) { return !is_there(gpu_path(gpu.id)); });
  for (const fs::path& file : files_in(folder, ".yaml")) {
    const std::string id = file.stem().string();
    const auto is_it = [&](const GpuNames& gpu) { return gpu.id == id; };
    if (id != "index" && std::none_of(all.begin(), all.end(), is_it)) all.push_back(names_from_file(file));
  }
  for (const fs::path& file : files_in(own_gpu_dir(), ".yaml")) {
    GpuNames own = names_from_file(file);
    std::erase_if(all, [&](const GpuNames& gpu) { return gpu.id == own.id; });
    all.push_back(std::move(own));
  }
  std::sort(all.begin(), all.end(), [](const GpuNames& a, const GpuNames& b) { return a.id < b.id; });
  return all;
}

namespace {

const std::vector<GpuNames>& all_names() {
  return read_once<list_gpu_names, StaysTrue::InQuestion>();  // a list of GPUs asks for each
}

}  // namespace

bool is_same_gpu_name(const std::string& a, const std::string& b) { return normalised(a) == normalised(b); }

std::vector<std::string> possible_gpus(const std::string& text) {
  const std::string wanted = normalised(text);
  std::vector<std::string> out;
  for (const GpuNames& gpu : all_names()) {
    if (normalised(gpu.id) == wanted || contains(gpu.aliases, wanted)) return {gpu.id};
    if (contains(gpu.assumed_for, wanted) || contains(gpu.ambiguous, wanted)) out.push_back(gpu.id);
  }
  return out;
}

std::string how_to_describe(const std::string& text) { return hint_for_unknown(text, all_names()); }

namespace {

/// The product alone; known_gpu adds whose file describes it.
std::optional<GpuChoice> choose_gpu(const std::string& text) {
  const std::string wanted = normalised(text);
  for (const GpuNames& gpu : all_names()) {
    if (normalised(gpu.id) == wanted || contains(gpu.aliases, wanted)) return GpuChoice{gpu.id, {}};
    if (contains(gpu.assumed_for, wanted)) return GpuChoice{gpu.id, fmt::format("{} means {}", trim(text), gpu.id)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<GpuChoice> known_gpu(const std::string& text) {
  auto choice = choose_gpu(text);
  if (!choice) return std::nullopt;
  const fs::path shipped = data_dir() / "gpus" / (choice->id + ".yaml"), used = gpu_path(choice->id);
  if (used != shipped && is_there(shipped))
    choice->assumption += fmt::format("{}{} is read from {}, not from the catalogue",
                                      choice->assumption.empty() ? "" : "; ", choice->id, used.string());
  return choice;
}

GpuChoice resolve_gpu(const std::string& text) {
  if (auto choice = known_gpu(text)) return *std::move(choice);
  const std::vector<GpuNames>& all = all_names();
  const std::string wanted = normalised(text);
  std::vector<const GpuNames*> candidates;
  for (const GpuNames& gpu : all)
    if (contains(gpu.ambiguous, wanted)) candidates.push_back(&gpu);
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
