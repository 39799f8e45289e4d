// Which profile an answer rests on.
#pragma once

#include <nlohmann/json.hpp>

#include "cluster/profile/profile.h"

namespace gpuplan {

nlohmann::ordered_json profile_used_json(const Profile& profile);

}  // namespace gpuplan
