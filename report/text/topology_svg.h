// A topology as a picture: one machine, its links with their rates, and the network. Stands alone and inside a report.
#pragma once

#include <string>

#include "cluster/topology.h"

namespace gpuplan {

/// An <svg> element with its own styles, no scripts, nothing outside it.
std::string topology_svg(const Topology& topology);

}  // namespace gpuplan
