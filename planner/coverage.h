// Whether a plan asks for products that `calibrate` measured, or for others that its fits extrapolate to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/cost.h"
#include "planner/step_program.h"

namespace gpuplan {

struct Coverage {
  std::int64_t num_shapes{}, num_extrapolated{};  // distinct products of a step
  std::vector<std::string> examples;              // "forward 2048 x 128256 x 4096", a few of the extrapolated ones
};

/// Products without a surface count as extrapolated. Nothing where the profile was not measured.
Coverage gemm_coverage(const StepProgram& program, const CostModel& model);

/// "3 of 9 GEMM shapes extrapolated (forward 2048 x 128256 x 4096, …)"; empty when all were measured, or nothing was.
std::string describe(const Coverage& coverage);

}  // namespace gpuplan
