// What the shipped profile says links reach: these tests check what is made of the shares, not their values.
#pragma once

#include "cluster/profile/profile.h"

namespace gpuplan::test {

inline const Profile& shipped_links() {
  static const Profile profile = default_profile("a100-sxm-80gb");
  return profile;
}
inline double pcie_share() { return shipped_links().pcie_efficiency; }
inline double network_share() { return shipped_links().network_efficiency; }
inline double nvlink_share() { return shipped_links().nvlink_efficiency; }

}  // namespace gpuplan::test
