// Every number behind the predictions that was fitted, measured or chosen rather than taken from a datasheet or a
// definition: what stands between the physics and the figures, so that it can be counted.
#pragma once

#include <string>
#include <vector>

#include "cluster/profile/profile.h"

namespace gpuplan {

enum class ConstantUse : std::uint8_t { Memory, Time };

struct EmpiricalConstant {
  std::string name;  // "context", "gemm_efficiency (default-ampere)", "hook_kernels (frameworks)"
  double value{};
  std::string unit, kind, source;
  ConstantUse use{};
};

/// Of these profiles (a value that they share counts once), of the links, and of the framework records.
std::vector<EmpiricalConstant> empirical_constants(const std::vector<Profile>& profiles);

}  // namespace gpuplan
