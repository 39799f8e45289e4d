#include "base/user_folders.h"

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
      CHECK(home_dir().is_absolute());
      CHECK(user_data_dir() == home_dir() / ".local/share/gpuplan");
      CHECK(user_cache_home() == home_dir() / ".cache");
    }
}
