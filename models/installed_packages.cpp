#include "models/installed_packages.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "base/environment.h"
#include "base/error.h"
#include "base/files.h"
#include "base/names.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".dist-info";

/// Says where the interpreter on $PATH lives: "/usr" of /usr/bin/python3; empty where there is none.
fs::path prefix_on_path() {
  for (const std::string& folder : split(text_of_variable("PATH"), ':'))
    for (const char* name : {"python3", "python"})
      if (!folder.empty() && is_there(fs::path(folder) / name)) return fs::path(folder).parent_path();
  return {};
}

std::vector<fs::path> prefixes() {
  std::vector<fs::path> out;
  for (const fs::path& prefix :
       {fs::path(text_of_variable("VIRTUAL_ENV")), fs::path(text_of_variable("CONDA_PREFIX")), prefix_on_path()})
    if (!prefix.empty() && std::ranges::find(out, prefix) == out.end()) out.push_back(prefix);
  return out;
}

struct Package {
  std::string name, version;
};

/// Installers write '_' where a name has '-' or '.'.
std::string library_name(std::string_view name) {
  std::string out = to_lower(name);
  std::ranges::replace(out, '_', '-');
  std::ranges::replace(out, '.', '-');
  return out;
}

std::string header_of(const std::string& metadata, std::string_view key) {
  for (const std::string& line : split(metadata, '\n')) {
    if (trim(line).empty()) break;  // a description follows
    if (line.starts_with(key)) return std::string(trim(std::string_view(line).substr(key.size())));
  }
  return {};
}

/// Takes the version of a folder's name, "liger_kernel-0.8.2.dist-info", or else of its METADATA.
Package package_in(const fs::path& folder, const std::string& name) {
  const std::string stem = name.substr(0, name.size() - kEnding.size());
  const std::size_t dash = stem.find('-');
  if (dash != std::string::npos && as_version(stem.substr(dash + 1)))
    return {library_name(stem.substr(0, dash)), stem.substr(dash + 1)};
  const std::string metadata = read_if_there(folder / name / "METADATA").value_or("");
  return {library_name(header_of(metadata, "Name:")), header_of(metadata, "Version:")};
}

void add_packages(const fs::path& folder, StackVersions& versions) {
  for (const std::string& name : names_in(folder)) {
    if (!name.ends_with(kEnding)) continue;
    const Package package = package_in(folder, name);
    const auto version = as_version(package.version);
    const bool is_known = std::ranges::any_of(libraries(), [&](const Library& l) { return l.name == package.name; });
    if (is_known && version) versions.try_emplace(package.name, *version);
  }
}

}  // namespace

std::vector<fs::path> package_folders(const fs::path& prefix) {
  std::vector<fs::path> roots{prefix};
  if (prefix == "/usr")
    roots.insert(roots.begin(), "/usr/local");  // what pip installs beside a distribution's packages
  std::vector<fs::path> out;
  for (const fs::path& root : roots)
    for (const char* lib : {"lib", "lib64"})
      for (const std::string& name : names_in(root / lib))
        if (name.starts_with("python"))
          for (const char* packages : {"site-packages", "dist-packages"}) out.push_back(root / lib / name / packages);
  return out;
}

std::variant<StackVersions, std::string> find_installed_versions() {
  std::vector<std::string> asked;
  for (const fs::path& prefix : prefixes()) {
    StackVersions versions;
    for (const fs::path& folder : package_folders(prefix)) add_packages(folder, versions);
    if (versions.empty()) {
      asked.push_back(prefix.string());
      continue;
    }
    for (const Library& library : libraries())
      if (library.is_optional) versions.try_emplace(library.name, *as_version(kNoVersion));
    return versions;
  }
  return asked.empty() ? "no Python was found: $VIRTUAL_ENV and $CONDA_PREFIX are unset, and $PATH has no python3"
                       : fmt::format("none of the known libraries is installed under {}", fmt::join(asked, ", "));
}

StackVersions installed_versions() {
  auto found = find_installed_versions();
  if (StackVersions* const versions = std::get_if<StackVersions>(&found)) return std::move(*versions);
  throw InputError("--versions", std::get<std::string>(found),
                   "activate the environment that trains, or give versions: transformers=4.57");
}

}  // namespace gpuplan
