#pragma once

#include <nlohmann/json.hpp>

#include "report/text/topology_text.h"

namespace gpuplan {

nlohmann::ordered_json topology_json(const TopologyAnswer& answer);

}  // namespace gpuplan
