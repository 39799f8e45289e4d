// Tests see no profiles and no models of whoever runs them, and ask no Hub.
#include <cstdlib>

#include <doctest/doctest.h>

int main(int argc, char** argv) {
  setenv("HF_HUB_OFFLINE", "1", 1);
  setenv("HF_HOME", "/nonexistent/huggingface", 1);
  setenv("GPUPLAN_PROFILE_DIR", "/nonexistent/profiles", 1);
  setenv("OMP_WAIT_POLICY", "passive", 1);  // tests share cores with others: threads that wait let them work
  return doctest::Context(argc, argv).run();
}
