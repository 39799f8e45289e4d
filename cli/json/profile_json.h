// Profiles as JSON: one whole, the list, two compared. Base units, with the unit in the key.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/profile_list.h"
#include "cli/profile_numbers.h"
#include "cluster/profile.h"

namespace gpuplan {

nlohmann::ordered_json profile_json(const Profile& profile);
nlohmann::ordered_json profiles_json(const ProfileList& list);
nlohmann::ordered_json comparison_json(const Profile& first, const Profile& second, const ProfileComparison& comparison);

}  // namespace gpuplan
