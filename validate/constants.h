// Every number behind the predictions that was fitted, measured or chosen rather than taken from a datasheet or a
// definition: what stands between the physics and the figures, so that it can be counted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/profile/profile.h"

namespace gpuplan {

enum class ConstantUse : std::uint8_t { Memory, Time };

/// Worth of a fitted constant: scripts/fit_speed.py --ablate.
struct Ablation {
  std::int64_t num_points{};  // that depend on it
  double median{}, p90{};     // without it
};

struct EmpiricalConstant {
  std::string name;  // "context", "gemm_efficiency (default-ampere)", "hook_kernels (frameworks)"
  double value{};
  std::string unit, kind, source;
  ConstantUse use{};
  std::optional<Ablation> ablation{};  // of a fitted one
};

/// |ln(predicted / measured)| on sources that no fit has seen, with all fitted constants.
std::optional<Ablation> ablation_of_none();

/// Constants of these profiles (a value that they share counts once), of the links, and of the framework records.
std::vector<EmpiricalConstant> empirical_constants(const std::vector<Profile>& profiles);

}  // namespace gpuplan
