// Groups of ranks on fake GPUs, for tests: in threads of this process, or in processes of their own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda_device/fake/machine.h"
#include "device/backend.h"

namespace gpuplan::test {

using RankWork = std::function<void(Device&, Communicator&)>;

/// A machine of `count` equal GPUs until the end of the scope.
class Played {
 public:
  explicit Played(const fake::Machine& machine) { fake::play(machine); }
  explicit Played(int count) : Played(fake::Machine{.gpus = std::vector<fake::Gpu>(std::size_t(count))}) {}
  ~Played() { fake::play({}); }
  Played(const Played&) = delete;
  Played& operator=(const Played&) = delete;
};

/// An environment variable until the end of the scope.
class Setting {
 public:
  Setting(const char* name, const std::string& value);
  ~Setting();
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

/// `work` as every rank at once, rank r on GPU gpus[r]. What each threw, "" when nothing. Ranks that compute do not
/// share a GPU here: freeing memory waits for all that a process does on it, and so for a collective that waits for the
/// rank that frees.
std::vector<std::string> in_threads(const std::vector<int>& gpus, const RankWork& work);
std::vector<int> one_gpu_each(int num_ranks);

/// How a rank's process ended.
struct Ended {
  int exit_code = -1;  // -1: by a signal
  std::string output;
};
/// The test case of this name, which is skipped otherwise, in a process for each rank.
std::vector<Ended> in_processes(int num_ranks, int num_gpus, const std::string& test_case);
/// `work` as the rank that this process is; ranks take the GPUs in turn.
void as_own_rank(const RankWork& work);

}  // namespace gpuplan::test
