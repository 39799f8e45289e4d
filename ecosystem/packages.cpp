#include "ecosystem/packages.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/surroundings.h"
#include "base/value_tree.h"
#include "base/yaml_file.h"
#include "ecosystem/emit.h"

namespace gpuplan {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;

/// A package that a plan needs where all facts have one of the values.
struct PackageRow {
  std::string package;
  std::vector<std::pair<const SetupField*, json>> when;
  bool is_built = false;
};

/// Describes what a trainer's own package brings along, and how it calls the rest.
struct TrainerPackages {
  Names needs, built_needs, brings;
  std::map<std::string, std::string> extras, bounds;
  bool is_built = false;
};

struct PackageData {
  Names build_tools;
  std::vector<PackageRow> rows;
  std::map<std::string, TrainerPackages> trainers;
};

PackageData read_packages() {
  const std::string where = (data_dir() / "ecosystem" / "packages.yaml").string();
  const auto tree = read_yaml11(where);
  PackageData data;
  try {
    data.build_tools = tree->root.at("build_tools").get<Names>();
    for (const json& row : tree->root.at("packages")) {
      PackageRow& out = data.rows.emplace_back();
      out.package = row.at("package");
      out.is_built = row.value("built", false);
      for (const json& pair : row.at("when")) {
        const SetupField* const field = find_setup_field(pair.at(0).get<std::string>());
        if (!field) throw InputError(where, fmt::format("unknown fact '{}'", pair.at(0).get<std::string>()));
        out.when.emplace_back(field, pair.at(1));
      }
    }
    using Map = std::map<std::string, std::string>;
    for (const auto& [name, row] : tree->root.at("trainers").items())
      data.trainers[name] = {.needs = row.value("needs", Names{}),
                             .built_needs = row.value("built_needs", Names{}),
                             .brings = row.at("brings").get<Names>(),
                             .extras = row.value("extras", Map{}),
                             .bounds = row.value("bounds", Map{}),
                             .is_built = row.value("built", false)};
  } catch (const json::exception& error) { throw InputError(where, error.what()); }
  return data;
}

bool has(const Names& names, const std::string& name) { return std::ranges::find(names, name) != names.end(); }

bool is_needed(const Setup& setup, const PackageRow& row) {
  return std::ranges::all_of(row.when, [&](const auto& fact) {
    const json value = value_of(setup, *fact.first);
    return std::ranges::find(fact.second, value) != fact.second.end();
  });
}

/// The bounds of a package: a version that was given, the trainer's own, or that of the table which describes it.
std::string bounds_of(const std::string& package, const KeyTable& trainer, const TrainerPackages& own,
                      const Versions& given) {
  if (const auto version = version_of(given, package)) return pip_bounds(*version);
  if (const auto found = own.bounds.find(package); found != own.bounds.end()) return found->second;
  if (const auto version = version_of(trainer.versions, package)) return pip_bounds(*version);
  for (const char* table : {"accelerate", "deepspeed"})
    if (const auto version = version_of(find_key_table(table)->versions, package)) return pip_bounds(*version);
  return "";
}

/// Words of one command.
void add(Names& words, const std::string& word) {
  if (!has(words, word)) words.push_back(word);
}

}  // namespace

std::string pip_bounds(const std::string& version) {
  constexpr std::string_view kLater = " or later", kTo = " to ";
  if (version.ends_with(kLater)) return ">=" + version.substr(0, version.size() - kLater.size());
  const std::size_t at = version.find(kTo);
  if (at == std::string::npos) return "==" + version;
  Names last = split(version.substr(at + kTo.size()), '.');
  if (last.size() > 1 && last.back() == "x") last.pop_back();
  last.back() = std::to_string(parse_integer(last.back(), "version", 0, 1'000'000) + 1);
  return fmt::format(">={},<{}", version.substr(0, at), fmt::join(last, "."));
}

std::vector<std::string> pip_commands(const Setup& setup, const KeyTable& trainer, const Versions& given,
                                      const Names& also) {
  const PackageData& data = read_once<read_packages>();
  const auto found = data.trainers.find(trainer.name);
  GPUPLAN_CHECK(found != data.trainers.end(), "a trainer without a row of packages");
  const TrainerPackages& own = found->second;
  Names plain, built, extras, built_extras;
  const std::string& main = trainer.versions.front().first;
  const auto need = [&](const std::string& package, bool is_built) {
    if (has(own.brings, package)) return;
    const auto extra = own.extras.find(package);
    if (extra != own.extras.end()) return add(is_built ? built_extras : extras, extra->second);
    add(is_built ? built : plain, package + bounds_of(package, trainer, own, given));
  };
  for (const PackageRow& row : data.rows)
    if (is_needed(setup, row)) need(row.package, row.is_built);
  for (const auto& [package, version] : trainer.versions)
    if (package != main) need(package, false);
  for (const std::string& package : own.needs) need(package, false);
  for (const std::string& package : own.built_needs) need(package, true);
  for (const std::string& package : also) need(package, false);
  const auto of_main = [&](const Names& some) {
    return fmt::format("{}{}{}", main, some.empty() ? "" : fmt::format("[{}]", fmt::join(some, ",")),
                       bounds_of(main, trainer, own, given));
  };
  if (own.is_built) extras.insert(extras.end(), built_extras.begin(), built_extras.end());
  Names& first = own.is_built ? built : plain;
  first.insert(first.begin(), of_main(extras));
  if (!own.is_built && !built_extras.empty()) built.push_back(of_main(built_extras));
  if (!built.empty())
    for (const std::string& tool : data.build_tools) {
      const auto is_named = [&](const std::string& word) {
        return word.starts_with(tool) && word.size() > tool.size();
      };
      if (std::ranges::none_of(plain, is_named)) add(plain, tool);
    }
  const auto command = [](std::string out, const Names& words) {
    for (const std::string& word : words) out += " " + shell_word(word);
    return out;
  };
  Names out;
  if (!plain.empty()) out.push_back(command("pip install", plain));
  if (!built.empty()) out.push_back(command("pip install --no-build-isolation", built));
  return out;
}

}  // namespace gpuplan
