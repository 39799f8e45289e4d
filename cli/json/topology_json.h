#pragma once

#include <nlohmann/json.hpp>

#include "cli/render/topology_text.h"

namespace gpuplan {

nlohmann::ordered_json topology_json(const TopologyAnswer& answer);

}  // namespace gpuplan
