// Tests see no profiles of whoever runs them.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdlib>

#include <doctest/doctest.h>

int main(int argc, char** argv) {
  setenv("GPUPLAN_PROFILE_DIR", "/nonexistent/profiles", 1);
  return doctest::Context(argc, argv).run();
}
