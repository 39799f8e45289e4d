// A machine that pretends to have GPUs (tests/pretend_gpu, tests/fakes/nvml.cpp).
#pragma once

#include <string>

#include "run_program/small_run.h"

namespace gpuplan::test {

/// A machine with two A6000, of which `used_mib` are taken on the second by process 1.
struct PretendMachine {
  explicit PretendMachine(const SmallRun& r, int used_mib = 0, const std::string& second = "NVIDIA RTX A6000")
      : variables(
            {{"GPUPLAN_LIBRARY_DIR", GPUPLAN_PRETEND_DIR},
             {"GPUPLAN_PRETEND_CPU", GPUPLAN_CPU_DIR},
             {"GPUPLAN_PRETEND_MARKS", r.path().string()},
             {"GPUPLAN_NVML", GPUPLAN_FAKE_NVML},
             {"GPUPLAN_FAKE_NVML_MACHINE",
              r.scratch().write(
                  "machine.json",
                  R"({"driver":"580.65","gpus":[{"name":"NVIDIA RTX A6000","memory_mib":49140,"uuid":"GPU-a"},{"name":")" +
                      second + R"(","memory_mib":49140,"uuid":"GPU-b","used_mib":)" + std::to_string(used_mib) +
                      R"(,"processes":[[1,)" + std::to_string(used_mib) + "]]}]}")}}) {}
  ScopedVariables variables;
};

}  // namespace gpuplan::test
