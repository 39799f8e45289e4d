// Tests see no profiles and no models of whoever runs them, and ask no Hub.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cstdlib>

#include <doctest/doctest.h>

int main(int argc, char** argv) {
  setenv("HF_HUB_OFFLINE", "1", 1);
  setenv("HF_HOME", "/nonexistent/huggingface", 1);
  setenv("GPUPLAN_PROFILE_DIR", "/nonexistent/profiles", 1);
  return doctest::Context(argc, argv).run();
}
