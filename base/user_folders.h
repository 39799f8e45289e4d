// Where a user's own files are: cards, profiles, the secret of ranks, Hugging Face's and gpuplan's caches.
#pragma once

#include <filesystem>

namespace gpuplan {

/// $HOME where that is an absolute path, else the home that the system knows. Without one a path that cannot exist, so
/// that no folder of a user is read from or made in the current folder.
std::filesystem::path home_dir();

/// $XDG_CACHE_HOME or ~/.cache. As the XDG base directory specification asks, relative paths are ignored.
std::filesystem::path user_cache_home();

/// The user's folder for gpuplan: gpuplan/ in $XDG_DATA_HOME (if absolute) or ~/.local/share. It need not exist.
std::filesystem::path user_data_dir();

}  // namespace gpuplan
