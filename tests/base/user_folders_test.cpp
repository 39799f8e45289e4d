#include "base/user_folders.h"

#include <pwd.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include "environment_variable.h"

using namespace gpuplan;

TEST_CASE("folders of a user are never in the current folder") {
  const test::Variable no_data("XDG_DATA_HOME", nullptr), no_cache("XDG_CACHE_HOME", nullptr);
  {
    const test::Variable home("HOME", "/home/a");
    CHECK(user_data_dir() == "/home/a/.local/share/gpuplan");
    CHECK(user_cache_home() == "/home/a/.cache");
    const test::Variable data("XDG_DATA_HOME", "/data"), cache("XDG_CACHE_HOME", "/cache");
    CHECK(user_data_dir() == "/data/gpuplan");
    CHECK(user_cache_home() == "/cache");
  }
  for (const char* home : {static_cast<const char*>(nullptr), "", ".", "home/a"})
    for (const char* xdg : {static_cast<const char*>(nullptr), "", ".", "data"}) {
      const test::Variable user("HOME", home), data("XDG_DATA_HOME", xdg), cache("XDG_CACHE_HOME", xdg);
      CHECK(home_dir() == getpwuid(geteuid())->pw_dir);
      CHECK(user_data_dir() == home_dir() / ".local/share/gpuplan");
      CHECK(user_cache_home() == home_dir() / ".cache");
    }
}

TEST_CASE("a user without a home has no folders, and nothing can be made in their place") {
  constexpr uid_t kNobodys = 54321;
  const test::Variable home("HOME", nullptr), no_data("XDG_DATA_HOME", nullptr), no_cache("XDG_CACHE_HOME", nullptr);
  const uid_t before = geteuid();
  if (getpwuid(kNobodys) || seteuid(kNobodys) != 0) {
    MESSAGE("skipped: only root can be a user that the system does not know");
    return;
  }
  const std::filesystem::path data = user_data_dir(), cache = user_cache_home();
  REQUIRE(seteuid(before) == 0);
  for (const std::filesystem::path& folder : {data, cache}) {
    CHECK(folder.string().starts_with("/dev/null/"));
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    CHECK(error);
  }
}
