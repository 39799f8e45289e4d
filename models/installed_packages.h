// The versions of libraries that are installed here, read from the folders that Python's installers leave beside the
// packages. No Python is started.
#pragma once

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "models/stack.h"

namespace gpuplan {

/// Folders with packages of the Python under `prefix` ("/usr", a virtual environment), there or not.
std::vector<std::filesystem::path> package_folders(const std::filesystem::path& prefix);

/// Finds the libraries of data/stack. Asks $VIRTUAL_ENV, then $CONDA_PREFIX, then the Python on $PATH; the first that
/// has one of them answers; else says where none was found.
std::variant<StackVersions, std::string> find_installed_versions();
/// The same where they were asked for. Throws InputError naming --versions.
StackVersions installed_versions();

}  // namespace gpuplan
