// What `gpuplan profiles` lists: measured profiles with what they are used for on this machine, and the shipped
// classes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cluster/profile/profile_store.h"

namespace gpuplan {

struct ListedProfile {
  StoredProfile stored;
  std::string used_for;  // "GPUs of this machine", "CPU ranks of this machine"; empty: nothing here
};

struct ListedClass {
  std::string id, title, used_for;
};

struct ProfileList {
  std::filesystem::path folder;
  std::vector<ListedProfile> measured;  // newest first
  std::vector<ListedClass> shipped;
};

ProfileList list_profiles();

}  // namespace gpuplan
