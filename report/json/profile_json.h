// Profiles as JSON: the one an answer rests on, one whole, the list, two compared. Base units, with the unit in the
// key.
#pragma once

#include <nlohmann/json.hpp>

#include "cluster/profile/profile.h"
#include "report/profile_list.h"
#include "report/profile_numbers.h"

namespace gpuplan {

nlohmann::ordered_json profile_used_json(const Profile& profile);

nlohmann::ordered_json profile_json(const Profile& profile);
nlohmann::ordered_json profiles_json(const ProfileList& list);
nlohmann::ordered_json comparison_json(const Profile& first, const Profile& second,
                                       const ProfileComparison& comparison);

}  // namespace gpuplan
