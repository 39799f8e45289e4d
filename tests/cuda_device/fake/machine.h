// The machine that the fake CUDA runtime plays: which GPUs, which driver, and what goes wrong. Read from the
// environment at first use, so that a whole program can be run on it; a test in the same process may put another in its
// place.
//
//   GPUPLAN_FAKE_GPUS          "2", or kinds by semicolons, each "<count> <name>, <compute capability>, <MiB>":
//                              "1 NVIDIA A100-SXM4-80GB, 8.0, 81920; 1 Tesla T4, 7.5, 15360"
//   GPUPLAN_FAKE_CUDA_FAILURE  by commas: driver-absent, driver-too-old, no-kernel-image, no-epilogues (of products),
//   out-of-memory-at:<n>,
//                              lost-at-launch:<n>, capture-breaks-at:<n> (the n-th allocation of device memory, kernel,
//                              work that is recorded for a graph; from 1), capture-breaks-on:<gpu> (there only)
//   GPUPLAN_FAKE_EPILOGUES     a file that gets a line for each product with an epilogue, of what it was: "bias 0",
//   "sums of B 14"
//                              (and the vector's cudaDataType_t)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan::fake {

struct Gpu {
  std::string name = "NVIDIA A100-SXM4-80GB";
  int major = 8, minor = 0;
  std::int64_t memory = std::int64_t(80) << 30;  // bytes
};

enum class Driver { Present, TooOld, Absent };

struct Machine {
  std::vector<Gpu> gpus = std::vector<Gpu>(1);
  Driver driver = Driver::Present;
  bool has_kernels = true;     // for these GPUs, in this build
  bool has_epilogues = true;   // of products
  int fail_allocation = 0;     // the n-th from now on has no memory; 0: none
  int lose_gpu_at_launch = 0;  // the n-th kernel from now on takes its GPU with it; 0: none
  int break_capture_at = 0;    // the n-th work from now on that is recorded is refused; 0: none
  int break_capture_on = -1;   // counted on this GPU only; -1: on any
};

/// Throws std::invalid_argument saying what it does not understand.
std::vector<Gpu> parse_gpus(std::string_view text);
Machine machine_of_environment();

/// From now on. Streams, events and memory of the machine before still work and are to be destroyed; lost GPUs are
/// whole again.
void play(const Machine& machine);

}  // namespace gpuplan::fake
