// "What if the cards had NVLink?": one number of the machine or the profile is set, everything else stays.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "planner/estimate.h"

namespace gpuplan {

struct WhatIfLever {
  const char* name;
  const char* value;  // unit, for the help
  const char* meaning;
  void (*apply)(ClusterSpec& cluster, Profile& profile, double value);
};

std::span<const WhatIfLever> what_if_levers();

struct WhatIf {
  std::string name;
  double value{};
};

/// "nvlink=900,dispatch=5". Throws InputError for an unknown lever (with the nearest) or a bad value.
std::vector<WhatIf> parse_what_if(const std::string& text);

/// Applies all of them, in order. Throws InputError where a lever makes no sense on this machine.
void apply_what_if(const std::vector<WhatIf>& changes, ClusterSpec& cluster, Profile& profile);

/// "NVLink 900 GB/s", for people.
std::string describe(const WhatIf& change);

}  // namespace gpuplan
