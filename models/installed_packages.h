// The versions of libraries that are installed here, read from the folders that Python's installers leave beside the
// packages. No Python is started.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "models/stack.h"

namespace gpuplan {

/// Folders with packages of the Python under `prefix` ("/usr", a virtual environment), there or not.
std::vector<std::filesystem::path> package_folders(const std::filesystem::path& prefix);

/// Finds the libraries of data/stack. Asks $VIRTUAL_ENV, then $CONDA_PREFIX, then the Python on $PATH; the first that
/// has one of them answers. Throws InputError naming --versions and the places where none was found.
StackVersions installed_versions();

}  // namespace gpuplan
