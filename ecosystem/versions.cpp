#include "ecosystem/versions.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/surroundings.h"
#include "base/value_tree.h"
#include "base/yaml_file.h"
#include "models/stack.h"
#include "models/version.h"

namespace gpuplan {
namespace {

using nlohmann::json;

struct VersionData {
  Versions oldest;  // whose keys are known
  std::vector<VersionRule> rules;
};

VersionRule rule_from(const json& row, const std::string& where) {
  VersionRule rule{.id = row.at("id"),
                   .package = row.at("package"),
                   .before = row.at("before"),
                   .reason = row.at("reason"),
                   .nearest = row.at("nearest"),
                   .when = {}};
  for (const json& pair : row.at("when")) {
    const SetupField* field = find_setup_field(pair.at(0).get<std::string>());
    if (!field) throw InputError(where, fmt::format("unknown fact '{}'", pair.at(0).get<std::string>()));
    rule.when.emplace_back(field, pair.at(1));
  }
  return rule;
}

/// transformers has a model's class from a version on.
VersionRule rule_of_model(const std::string& model_type, const std::string& version) {
  return {.id = "V10",
          .package = "transformers",
          .before = version,
          .reason = fmt::format("transformers has no {} before {}", model_type, version),
          .nearest = fmt::format("transformers {} or later", version),
          .when = {{find_setup_field("model_type"), json(model_type)}}};
}

VersionData read_versions() {
  const std::string where = (data_dir() / "ecosystem" / "versions.yaml").string();
  const auto tree = read_yaml11(where);
  VersionData data;
  try {
    for (const json& pair : tree->root.at("oldest")) data.oldest.emplace_back(pair.at(0), pair.at(1));
    for (const json& row : tree->root.at("rules")) data.rules.push_back(rule_from(row, where));
  } catch (const json::exception& error) { throw InputError(where, error.what()); }
  for (const auto& [model_type, version] : find_library("transformers").models)
    data.rules.push_back(rule_of_model(model_type, version));
  return data;
}

const VersionData& version_data() { return read_once<read_versions>(); }

std::vector<std::string> known_packages() {
  std::vector<std::string> names;
  for (const auto& [package, oldest] : version_data().oldest) names.push_back(package);
  return names;
}

void check_version(const std::string& package, const std::string& version) {
  const auto oldest = version_of(version_data().oldest, package);
  if (!oldest)
    throw InputError(
        "--versions", fmt::format("unknown package '{}'", package),
        did_you_mean(package, known_packages(), fmt::format("known: {}", fmt::join(known_packages(), ", "))));
  if (is_older(version, *oldest))
    throw InputError("--versions",
                     fmt::format("the keys of {} are known from {} on, and not of {} [V00]", package, *oldest, version),
                     fmt::format("{} {} or later", package, *oldest));
}

bool holds(const Setup& setup, const VersionRule& rule) {
  return std::all_of(rule.when.begin(), rule.when.end(), [&](const auto& fact) {
    const auto& [field, value] = fact;
    return value == "*" ? is_stated(setup, *field) : value_of(setup, *field) == value;
  });
}

}  // namespace

Versions parse_versions(std::string_view text) {
  Versions versions;
  for (const auto& [package, version] : version_pairs(text)) {
    check_version(package, version.text);
    versions.emplace_back(package, version.text);
  }
  return versions;
}

std::optional<std::string> version_of(const Versions& versions, std::string_view package) {
  for (const auto& [name, version] : versions)
    if (name == package) return version;
  return std::nullopt;
}

bool is_older(std::string_view version, std::string_view than) {
  const auto numbers = [](std::string_view text) { return as_version(text).value_or(Version()); };  // of a package here
  return numbers(version) < numbers(than);
}

const VersionRule* broken_version_rule(const Setup& setup, const Versions& versions) {
  for (const VersionRule& rule : version_data().rules) {
    const auto version = version_of(versions, rule.package);
    if (version && is_older(*version, rule.before) && holds(setup, rule)) return &rule;
  }
  return nullptr;
}

}  // namespace gpuplan
