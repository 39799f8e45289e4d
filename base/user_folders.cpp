#include "base/user_folders.h"

#include <optional>
#include <vector>

#include <pwd.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/surroundings.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

std::optional<fs::path> absolute_path_in(const char* name) {
  fs::path value = text_of_variable(name);
  return value.is_absolute() ? std::optional(std::move(value)) : std::nullopt;
}

std::optional<fs::path> home_of_system() {
  if (given_surroundings()) return std::nullopt;
  std::vector<char> text(16 << 10);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(geteuid(), &entry, text.data(), text.size(), &found) != 0 || !found) return std::nullopt;
  const fs::path home = found->pw_dir;
  return home.is_absolute() ? std::optional(home) : std::nullopt;
}

}  // namespace

fs::path home_dir() {
  if (const auto home = absolute_path_in("HOME")) return *home;
  return home_of_system().value_or("/dev/null");  // a file: nothing can be below it
}

fs::path user_cache_home() { return absolute_path_in("XDG_CACHE_HOME").value_or(home_dir() / ".cache"); }

fs::path user_data_dir() {
  return absolute_path_in("XDG_DATA_HOME").value_or(home_dir() / ".local" / "share") / "gpuplan";
}

}  // namespace gpuplan
