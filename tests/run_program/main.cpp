// `gpuplan run` as a user runs it: the built program, its ranks under mpirun. Exit code 77, a skipped test, without
// what ranks on a CPU need.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <doctest/doctest.h>

int main(int argc, char** argv) {
  const std::filesystem::path libraries = std::filesystem::path(GPUPLAN_PROGRAM).parent_path() / "lib" / "gpuplan";
  const bool has_libraries = exists(libraries / "libgpuplan_cpu.so") && exists(libraries / "libgpuplan_mpi.so");
  if (!has_libraries || std::system("command -v mpirun >/dev/null") != 0) {
    std::puts("skipped: this build has no CPU or MPI library, or there is no mpirun");
    return 77;
  }
  setenv("GPUPLAN_PROFILE_DIR", "/nonexistent/profiles", 1);
  // Tests share cores with others: waiting threads and ranks let them work instead of spinning.
  setenv("OMP_WAIT_POLICY", "passive", 1);
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 1);
  const char* const asan = std::getenv("ASAN_OPTIONS");  // Open MPI and oneDNN keep memory to the end
  setenv("ASAN_OPTIONS", (std::string(asan ? asan : "") + ":detect_leaks=0").c_str(), 1);
  return doctest::Context(argc, argv).run();
}
